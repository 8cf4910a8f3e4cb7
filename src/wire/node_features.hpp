// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a node can do for jobs beside its devices, as its agent says when it connects.
#include <boost/describe/class.hpp>
#include <string>
#include <vector>

#include "wire/volume.hpp"

namespace tranche::wire {

struct NodeFeatures {
  bool encrypts_volumes = false;          // Those that are new here.
  std::vector<VolumeId> plain_volumes{};  // Made before it did, or elsewhere: these lie open.
  std::string shared_volumes{};           // The pool of volumes that it mounts; empty: none.
  bool gang_networks = false;             // Members of a gang on other nodes can be reached from here.
  bool resizes = false;                   // Slices of running jobs.
  bool parks = false;                     // Takes a running job off its devices, and brings it back.
  bool operator==(const NodeFeatures&) const = default;
};
BOOST_DESCRIBE_STRUCT(NodeFeatures,
                      (),
                      (encrypts_volumes, plain_volumes, shared_volumes, gang_networks, resizes, parks))

}  // namespace tranche::wire
