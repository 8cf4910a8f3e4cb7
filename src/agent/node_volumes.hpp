// SPDX-License-Identifier: Apache-2.0
#pragma once
// The volumes that live on this node, or in a folder that all nodes of a pool mount: a folder each, named by
// number, that remembers whose it is. Which job gets which is the server's answer; that it is the owner's is
// checked here once more.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "agent/volume_cipher.hpp"
#include "wire/volume.hpp"

namespace tranche::agent {

class NodeVolumes {
 public:
  NodeVolumes(std::filesystem::path folder, VolumeCipher cipher)
      : folder_(std::move(folder)), shown_(folder_), cipher_(std::move(cipher)) {}
  // Of a pool: encrypted ones are shown in a folder of this node.
  struct Pool {
    std::filesystem::path folder{};
    std::filesystem::path shown{};
  };
  NodeVolumes(Pool pool, VolumeCipher cipher)
      : folder_(std::move(pool.folder)), shown_(std::move(pool.shown)), cipher_(std::move(cipher)) {}

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
  [[nodiscard]] bool encrypts() const { return cipher_.missing().empty(); }
  [[nodiscard]] std::vector<VolumeId> plain() const;  // Those that are not encrypted.
  // Both take as long as there is data; doing them again after a break finishes them.
  [[nodiscard]] wire::VolumeReceipt copy(const wire::VolumeOrder& order) const;
  [[nodiscard]] wire::VolumeReceipt wipe(const wire::VolumeOrder& order) const;

 private:
  [[nodiscard]] std::filesystem::path place_of(VolumeId volume) const { return folder_ / text(volume); }
  [[nodiscard]] std::filesystem::path shown_of(VolumeId volume) const {
    return shown_ / text(volume) / "data";
  }
  // False: it is there and another tenant's.
  [[nodiscard]] bool belongs_to(VolumeId volume, PartyId tenant) const;

  [[nodiscard]] bool is_encrypted(VolumeId volume) const;
  void lock_new(VolumeId volume, const std::string& key) const;
  void unlock(VolumeId volume, const std::string& key) const;
  [[nodiscard]] bool in_pool() const { return folder_ != shown_; }

  std::filesystem::path folder_;
  std::filesystem::path shown_;
  VolumeCipher cipher_;
};

// By which all nodes that mount the folder know it for the same; written into it by the first that does.
[[nodiscard]] std::string pool_name(const std::filesystem::path& folder);

}  // namespace tranche::agent
