// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a node comes to the key of a tenant's volumes, and how it says that it uses it. Both travel in what is
// there already: secrets of a grant are never written down or logged, labels are shown with the node.

namespace tranche::wire {

// A secret of a lease with volumes, for the node alone: the job does not get it.
inline constexpr const char* kVolumeKeySecret = "TRANCHE_VOLUME_KEY";
// Label of a node all of whose volumes are encrypted at rest.
inline constexpr const char* kVolumesLabel = "tranche.volumes";
inline constexpr const char* kVolumesEncrypted = "encrypted";

}  // namespace tranche::wire
