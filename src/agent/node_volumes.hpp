// SPDX-License-Identifier: Apache-2.0
#pragma once
// The volumes that live on this node: a folder each, named by number, that remembers whose it is. Which job
// gets which is the server's answer; that it is the owner's is checked here once more.
#include <filesystem>
#include <set>
#include <string>

#include "agent/volume_cipher.hpp"
#include "wire/volume.hpp"

namespace tranche::agent {

class NodeVolumes {
 public:
  NodeVolumes(std::filesystem::path folder, VolumeCipher cipher)
      : folder_(std::move(folder)), cipher_(std::move(cipher)) {}

  // The place to show to a job of that tenant, made if there is none yet. Throws std::runtime_error, also
  // when the volume is somebody else's.
  // `key`: of the tenant; new volumes are encrypted where the node can, and stay as they were made.
  struct User {
    PartyId tenant{};
    std::uint32_t uid = 0;
    std::string key{};
  };
  [[nodiscard]] std::filesystem::path open(VolumeId volume, const User& user) const;
  void close(VolumeId volume) const;  // Nobody uses it: nothing of it can be read now.
  void close_others(const std::set<VolumeId>& in_use) const;  // What an agent before this one left open.
  [[nodiscard]] bool all_encrypted() const;
  // Both take as long as there is data; doing them again after a break finishes them.
  [[nodiscard]] wire::VolumeReceipt copy(const wire::VolumeOrder& order) const;
  [[nodiscard]] wire::VolumeReceipt wipe(const wire::VolumeOrder& order) const;

 private:
  [[nodiscard]] std::filesystem::path place_of(VolumeId volume) const { return folder_ / text(volume); }
  // False: it is there and another tenant's.
  [[nodiscard]] bool belongs_to(VolumeId volume, PartyId tenant) const;

  [[nodiscard]] bool is_encrypted(VolumeId volume) const;
  void unlock(VolumeId volume, const std::string& key) const;

  std::filesystem::path folder_;
  VolumeCipher cipher_;
};

}  // namespace tranche::agent
