// SPDX-License-Identifier: Apache-2.0
#pragma once
// Snapshots of the engine's state: a cache of the journal, never the truth. A bad one is named, set aside,
// and the next older one is used.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "journal/chain.hpp"
#include "journal/store.hpp"

namespace tranche::journal {

struct SnapshotLabel {
  std::uint64_t sequence = 0;      // The state after this record...
  Hash chain_head{};               // ... in this history,
  Hash state_hash{};               // as the engine hashes it,
  std::uint32_t state_format = 0;  // in the engine's encoding of this version.
};

struct Snapshot {
  SnapshotLabel label{};
  std::string content{};
};

inline constexpr std::size_t kSnapshotsKept = 2;

// Writes `snapshots/snapshot-<sequence>.bin` under the data folder: temporary file, fsync, rename, fsync of
// the directory; then removes all but the newest kSnapshotsKept. Needs no Store, so a forked child may call
// it. Throws DiskFull or DiskFailed; neither harms the journal.
void write_snapshot(const std::filesystem::path& folder,
                    const SnapshotLabel& label,
                    std::string_view content);

// Told of each snapshot that was set aside, with the reason.
using OnBadSnapshot = std::function<void(const std::filesystem::path& file, const std::string& why)>;

// The newest snapshot that is whole, in `state_format`, and belongs to this store's history; bad ones are
// renamed to `.bad`. A snapshot in another state format is passed over and left alone.
[[nodiscard]] std::optional<Snapshot> newest_snapshot(const std::filesystem::path& folder,
                                                      const Reader& store,
                                                      std::uint32_t state_format,
                                                      const OnBadSnapshot& on_bad);

// A snapshot written by a forked child, on copy-on-write memory, while the parent serves on.
class SnapshotChild {
 public:
  enum class Outcome { kNone, kRunning, kWritten, kFailed };
  SnapshotChild() = default;
  SnapshotChild(const SnapshotChild&) = delete;
  SnapshotChild& operator=(const SnapshotChild&) = delete;
  ~SnapshotChild();  // Ends a child that is still writing.

  // `encode` runs in the child and must touch no lock that another thread of the parent may hold.
  void start(const std::filesystem::path& folder,
             Store& store,
             const SnapshotLabel& label,
             const std::function<std::string()>& encode);
  // kWritten or kFailed is told once; then kNone until the next start.
  Outcome poll();
  Outcome wait();

 private:
  pid_t child_ = 0;
};

}  // namespace tranche::journal
