// SPDX-License-Identifier: Apache-2.0
// A write or sync that fails: from then on nothing is acknowledged, and what was acknowledged before is kept.
#include <cstdio>
#include <doctest/doctest.h>

#include "journal/failpoint.hpp"
#include "journal/recording_vfs.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"
#include "journal/verify.hpp"

namespace tranche::journal {
namespace {

SqliteOptions through(const RecordingVfs& vfs) {
  return {.checkpoint_records = 5,
          .wal_pages = 12,
          .wal_checkpointing = WalCheckpointing::kInline,
          .vfs = vfs.name()};
}

// True when the fault was met. Appends until it is, then tries on.
bool run_into(Fault fault, std::uint64_t after) {
  const TemporaryFolder folder;
  RecordingVfs vfs;
  std::uint64_t acknowledged = 0;
  std::uint64_t given = 0;
  bool has_failed = false;
  {
    const auto store = open_sqlite(folder.path(), through(vfs));
    vfs.inject(fault, after);
    for (int i = 0; i < 60 && !has_failed; ++i) {
      try {
        given = store->last_sequence() + 3;
        append_records(*store, 3, at_second(i));
        acknowledged = store->last_sequence();
      } catch (const DiskFailed&) { has_failed = true; }
    }
    for (int i = 0; has_failed && i < 5; ++i) {
      CHECK_THROWS_AS(append_records(*store, 1), DiskFailed);
      CHECK(store->last_sequence() == acknowledged);
    }
    if (!vfs.has_fired()) return false;
    CHECK(has_failed);
    CHECK(count_expected_records(*store) >= static_cast<std::int64_t>(acknowledged));
    vfs.inject(Fault::kNone, 0);
  }
  const auto store = open_sqlite(folder.path(), {.wal_pages = 12});
  // The batch that failed may be there or not, whole; nobody was told either.
  const bool is_whole = store->last_sequence() == acknowledged || store->last_sequence() == given;
  CHECK(is_whole);
  CHECK(count_expected_records(*store) == static_cast<std::int64_t>(store->last_sequence()));
  CHECK(verify(folder.path()).outcome == Verification::Outcome::kIntact);
  return true;
}

TEST_CASE("disk failure: after a failed write or sync nothing more is acknowledged") {
  const std::uint64_t most = is_long_run() ? 5'000 : 400;
  const std::uint64_t step =
      is_long_run() ? 1 : 3;  // A batch is more writes than that: each kind of them is met.
  for (const Fault fault : {Fault::kSyncFails, Fault::kWriteFails}) {
    std::uint64_t injections = 0;
    for (std::uint64_t after = 1; after <= most; after += step) {
      if (!run_into(fault, after)) break;  // Beyond the last write of the run.
      ++injections;
    }
    std::printf("disk failure: %llu injections of %s\n",
                static_cast<unsigned long long>(injections),
                fault == Fault::kSyncFails ? "a failed sync" : "a failed write");
    CHECK(injections > 60 / step);
  }
}

TEST_CASE("disk failure: a disk that is full for one write refuses that batch only") {
  for (std::uint64_t after = 1; after <= 60; ++after) {
    const TemporaryFolder folder;
    RecordingVfs vfs;
    const auto store = open_sqlite(folder.path(), through(vfs));
    vfs.inject(Fault::kDiskFull, after);
    int refused = 0;
    for (int i = 0; i < 30; ++i) {
      const std::uint64_t before = store->last_sequence();
      try {
        append_records(*store, 3, at_second(i));
      } catch (const DiskFull&) {
        ++refused;
        CHECK(store->last_sequence() == before);
      }
    }
    REQUIRE(vfs.has_fired());
    CHECK(refused <= 1);  // None when it met the copying of the WAL, which tries again.
    CHECK(count_expected_records(*store) == 90 - 3 * refused);
    CHECK(verify(folder.path()).outcome == Verification::Outcome::kIntact);
  }
}

TEST_CASE("disk failure: an error at any step of an append stops the store") {
  for (const std::string point : {"append.begin",
                                  "append.inserted",
                                  "append.signed",
                                  "append.committed",
                                  "append.marked",
                                  "append.anchored"}) {
    CAPTURE(point);
    const TemporaryFolder folder;
    {
      const auto store = open_sqlite(folder.path(), {.checkpoint_records = 1});
      append_records(*store, 3);
      arm_failpoints(point + ":error");
      CHECK_THROWS_AS(append_records(*store, 3), DiskFailed);
      arm_failpoints("");
      CHECK_THROWS_AS(append_records(*store, 3), DiskFailed);
    }
    const auto store = open_sqlite(folder.path());
    CHECK(count_expected_records(*store) >= 3);
    CHECK(verify(folder.path()).outcome == Verification::Outcome::kIntact);
  }
}

}  // namespace
}  // namespace tranche::journal
