// SPDX-License-Identifier: Apache-2.0
#pragma once
// The volumes that live on this node: a folder each, named by number, that remembers whose it is. Which job
// gets which is the server's answer; that it is the owner's is checked here once more.
#include <filesystem>
#include <string>

#include "wire/volume.hpp"

namespace tranche::agent {

class NodeVolumes {
 public:
  explicit NodeVolumes(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The place to show to a job of that tenant, made if there is none yet. Throws std::runtime_error, also
  // when the volume is somebody else's.
  [[nodiscard]] std::filesystem::path open(VolumeId volume, PartyId tenant, std::uint32_t uid) const;
  // Both take as long as there is data; doing them again after a break finishes them.
  [[nodiscard]] wire::VolumeReceipt copy(const wire::VolumeOrder& order) const;
  [[nodiscard]] wire::VolumeReceipt wipe(const wire::VolumeOrder& order) const;

 private:
  [[nodiscard]] std::filesystem::path place_of(VolumeId volume) const { return folder_ / text(volume); }
  // False: it is there and another tenant's.
  [[nodiscard]] bool belongs_to(VolumeId volume, PartyId tenant) const;

  std::filesystem::path folder_;
};

}  // namespace tranche::agent
