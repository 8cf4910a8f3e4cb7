// SPDX-License-Identifier: Apache-2.0
#pragma once
// Encryption of a volume at rest: gocryptfs shows in one folder what lies encrypted in another, as long as it
// is mounted. The key of the files is made at random for each volume and lies beside them, locked with the
// key of the tenant; who overwrites it has made the files unreadable for everybody.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tranche::agent {

class VolumeCipher {
 public:
  VolumeCipher() = default;
  [[nodiscard]] static VolumeCipher find();
  // Why volumes are not encrypted here, in a sentence; empty: they are.
  [[nodiscard]] const std::string& missing() const { return missing_; }
  void turn_off(std::string why) { missing_ = std::move(why); }

  // Throw std::runtime_error with what the tool said. `hidden` has the files, `shown` what they mean.
  void create(const std::filesystem::path& hidden, const std::string& key) const;
  // Several nodes at once: nothing is remembered that another may have changed.
  enum class Users : std::uint8_t { kOneNode, kManyNodes };
  void attach(const std::filesystem::path& hidden,
              const std::filesystem::path& shown,
              const std::string& key,
              Users users) const;
  static void detach(const std::filesystem::path& shown);
  [[nodiscard]] static bool attached(const std::filesystem::path& shown);

  static constexpr const char* kLockedKey = "gocryptfs.conf";  // In the hidden folder.

 private:
  void run(const std::vector<std::string>& arguments, const std::string& key) const;
  std::string program_{};
  std::string missing_ = "the agent was not told to";
};

}  // namespace tranche::agent
