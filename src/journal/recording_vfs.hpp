// SPDX-License-Identifier: Apache-2.0
#pragma once
// Test equipment: a SQLite VFS that records what is written and synced, so that the disk can be rebuilt as a
// power loss at any moment might have left it, and that fails on request.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <sqlite3.h>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace tranche::journal {

struct DiskOperation {
  enum class Kind { kWrite, kTruncate, kSync, kAcknowledge };
  Kind kind = Kind::kWrite;
  std::string file{};         // Name within the folder.
  std::int64_t position = 0;  // kTruncate: the size. kAcknowledge: the sequence.
  std::string bytes{};
};

enum class Fault { kNone, kWriteFails, kSyncFails, kDiskFull };

class RecordingVfs {
 public:
  RecordingVfs();
  RecordingVfs(const RecordingVfs&) = delete;
  RecordingVfs& operator=(const RecordingVfs&) = delete;
  ~RecordingVfs();
  [[nodiscard]] const std::string& name() const { return name_; }

  void start_recording();
  void acknowledge(std::uint64_t sequence);
  [[nodiscard]] std::vector<DiskOperation> operations() const;

  // The `after`-th write or sync from now on fails, once.
  void inject(Fault fault, std::uint64_t after);
  [[nodiscard]] bool has_fired() const;

  // For the file methods.
  [[nodiscard]] int note(DiskOperation operation);
  [[nodiscard]] sqlite3_vfs* real() const { return real_; }

 private:
  std::string name_{};
  sqlite3_vfs* real_ = nullptr;
  std::unique_ptr<sqlite3_vfs> vfs_{};
  mutable std::mutex mutex_{};
  bool is_recording_ = false;
  std::vector<DiskOperation> operations_{};
  Fault fault_ = Fault::kNone;
  std::uint64_t fault_after_ = 0;
};

// What happened to writes that were not synced when the power went: all gone, each of them gone or not, or
// each 512-byte sector of them gone or not.
enum class Loss { kAll, kSomeWrites, kSomeSectors };

using DiskImage = std::map<std::string, std::string>;
[[nodiscard]] DiskImage read_image(const std::filesystem::path& folder,
                                   const std::vector<std::string>& files);
void write_image(const DiskImage& image, const std::filesystem::path& folder);

// The disk after the first `count` operations and then a power loss.
[[nodiscard]] DiskImage image_after_power_loss(const DiskImage& before,
                                               const std::vector<DiskOperation>& operations,
                                               std::size_t count,
                                               Loss loss,
                                               Random& random);

}  // namespace tranche::journal
