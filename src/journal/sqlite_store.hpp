// SPDX-License-Identifier: Apache-2.0
#pragma once
// The journal in one SQLite file: WAL, synchronous=FULL, one transaction per append.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "journal/store.hpp"

namespace tranche::journal {

// Anything but kFull loses acknowledged records on power loss. The others exist for the tests that prove it.
enum class Synchronous { kFull, kNormal, kOff };
// kBackground keeps the copying of the WAL into the database off the appending thread.
enum class WalCheckpointing { kBackground, kInline };

struct SqliteOptions {
  std::uint64_t checkpoint_records = 1'000;  // A signed checkpoint at least this often...
  Duration checkpoint_interval =
      std::chrono::seconds(60);  // ... and this often, when there was anything new.
  // A copy of every signed checkpoint goes here; empty: `anchors.jsonl` in the folder. Another disk is
  // better.
  std::filesystem::path anchor_file{};
  // Also told of every signed checkpoint, after it is durable: to send it off the machine.
  std::function<void(const Checkpoint&)> on_checkpoint{};
  std::size_t wal_pages = 2'000;  // The WAL is copied back when it has grown to this many pages.
  WalCheckpointing wal_checkpointing = WalCheckpointing::kBackground;
  Synchronous synchronous = Synchronous::kFull;
  std::string vfs{};  // A registered SQLite VFS; tests inject faults through it.
};

// Creates the folder, its keys and its database when they are missing. Holds the folder's lock for the life
// of the store. Throws AlreadyOpen, Corrupt, Unusable, DiskFull, DiskFailed.
[[nodiscard]] std::unique_ptr<Store> open_sqlite(const std::filesystem::path& folder,
                                                 SqliteOptions options = {});

// The same data for reading only, beside a running server or without one. Takes no lock and changes nothing.
[[nodiscard]] std::unique_ptr<Reader> open_sqlite_reader(const std::filesystem::path& folder);

}  // namespace tranche::journal
