// SPDX-License-Identifier: Apache-2.0
// Killing a process cannot show a missing sync, because the page cache survives it. These tests take away
// every write that was not synced, in whole or in part, and demand that nothing acknowledged is gone. The
// same harness must convict a store that syncs too little, or it proves nothing.
#include <cstdio>
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

#include "journal/anchors.hpp"
#include "journal/durable_file.hpp"
#include "journal/recording_vfs.hpp"
#include "journal/sqlite.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"
#include "journal/verify.hpp"

namespace tranche::journal {
namespace {

// One run of a store with everything it wrote, and when it acknowledged what.
struct Recording {
  TemporaryFolder folder{};
  DiskImage before{};
  std::vector<DiskOperation> operations{};
  std::vector<Hash> heads{};  // By sequence.
  std::string anchors{};
};

void record_run(Recording& recording, Synchronous synchronous, std::uint64_t seed) {
  RecordingVfs vfs;
  // The database exists before the recording starts: how it comes into being is SQLite's affair, and the
  // removal of its rollback journal is not recorded.
  open_sqlite(recording.folder.path(), {.wal_pages = 20}).reset();
  // A short WAL, so that copying it back and starting over happen many times within the recording.
  const auto store = open_sqlite(recording.folder.path(),
                                 {.checkpoint_records = 7,
                                  .wal_pages = 20,
                                  .wal_checkpointing = WalCheckpointing::kInline,
                                  .synchronous = synchronous,
                                  .vfs = vfs.name()});
  append_records(*store, 10);
  recording.before = read_image(recording.folder.path(), {"journal.db", "journal.db-wal"});
  vfs.start_recording();
  vfs.acknowledge(10);
  Random random(seed);
  for (int i = 0; i < 150; ++i) {
    append_records(*store, 1 + random.below(5), at_second(i));
    vfs.acknowledge(store->last_sequence());
  }
  recording.operations = vfs.operations();
  for (std::uint64_t n = 0; n <= store->last_sequence(); ++n) recording.heads.push_back(store->hash_at(n));
  recording.anchors = read_file(recording.folder.path() / "anchors.jsonl");
}

struct Tally {
  int states = 0;
  int lost = 0;     // Acknowledged records are gone.
  int corrupt = 0;  // The file is not sound, or a record is wrong.
};

// Outside files as they may be at that moment: the mark and the anchors never run ahead of the acknowledged.
void write_outside_files(const Recording& recording,
                         std::uint64_t acknowledged,
                         const std::filesystem::path& folder) {
  std::filesystem::copy(recording.folder.path() / "keys", folder / "keys");
  MarkFile(folder).write({.sequence = acknowledged, .head = recording.heads[acknowledged]});
  std::ofstream anchors(folder / "anchors.jsonl");
  std::istringstream all(recording.anchors);
  for (std::string line; std::getline(all, line);)
    if (parse_checkpoint_line(line)->sequence <= acknowledged) anchors << line << '\n';
}

void judge(const Recording& recording, std::size_t count, Loss loss, Random& random, Tally& tally) {
  std::uint64_t acknowledged = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (recording.operations[i].kind == DiskOperation::Kind::kAcknowledge)
      acknowledged = static_cast<std::uint64_t>(recording.operations[i].position);
  const TemporaryFolder folder;
  write_image(image_after_power_loss(recording.before, recording.operations, count, loss, random),
              folder.path());
  ++tally.states;
  try {
    {
      const Database database(folder.path() / "journal.db", Database::Access::kReadWrite, "");
      Statement check(database, "PRAGMA integrity_check");
      if (!check.step() || check.text(0) != "ok") throw Corrupt(0, "integrity_check");
      if (database.number("SELECT max(sequence) FROM journal") < acknowledged) {
        ++tally.lost;
        return;
      }
    }
    write_outside_files(recording, acknowledged, folder.path());
    const auto store = open_sqlite(folder.path(), {.checkpoint_records = 7, .wal_pages = 20});
    if (count_expected_records(*store) != static_cast<std::int64_t>(store->last_sequence())) ++tally.corrupt;
    append_records(*store, 3);
    if (verify(folder.path()).outcome != Verification::Outcome::kIntact) ++tally.corrupt;
  } catch (const std::exception&) { ++tally.corrupt; }
}

Tally lose_power(Synchronous synchronous, int states, std::uint64_t seed) {
  Recording recording;
  record_run(recording, synchronous, seed);
  Random random(seed + 1);
  Tally tally;
  for (int i = 0; i < states; ++i) {
    const auto loss =
        std::array{Loss::kAll, Loss::kSomeWrites, Loss::kSomeSectors}.at(static_cast<std::size_t>(i % 3));
    judge(recording, 1 + random.below(recording.operations.size()), loss, random, tally);
  }
  std::printf("power loss: %d states, seed %llu: %d lost acknowledged records, %d corrupt\n",
              tally.states,
              static_cast<unsigned long long>(seed),
              tally.lost,
              tally.corrupt);
  return tally;
}

TEST_CASE("power loss: nothing acknowledged is lost at any moment") {
  const std::uint64_t seed = test_seed(20'260'101);
  const int runs = is_long_run() ? 10 * long_scale() : 1;
  for (int run = 0; run < runs; ++run) {
    const auto tally =
        lose_power(Synchronous::kFull, is_long_run() ? 1'000 : 180, seed + static_cast<std::uint64_t>(run));
    CHECK(tally.lost == 0);
    CHECK(tally.corrupt == 0);
  }
}

TEST_CASE("power loss: the same test convicts a store that syncs too little") {
  const std::uint64_t seed = test_seed(20'260'102);
  const auto normal = lose_power(Synchronous::kNormal, 60, seed);
  CHECK(normal.lost > 0);
  const auto off = lose_power(Synchronous::kOff, 60, seed);
  CHECK(off.lost > 0);
}

}  // namespace
}  // namespace tranche::journal
