// SPDX-License-Identifier: Apache-2.0
// A really full file system: a small tmpfs, mounted for the test. Skipped where mounting is not permitted.
#include <cstdio>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "journal/disk_reserve.hpp"
#include "journal/snapshot.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"
#include "journal/verify.hpp"

namespace tranche::journal {
namespace {

class SmallDisk {
 public:
  explicit SmallDisk(std::uint64_t bytes) {
    mounted_ =
        ::mount("tranche-test", path().c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0;
    if (!mounted_) std::printf("[skipped] a tmpfs cannot be mounted here\n");
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool is_mounted() const { return mounted_; }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

  void fill_up() const {
    const int file = ::open((path() / "someone-elses-file").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const std::string page(4'096, 'x');
    while (::write(file, page.data(), page.size()) > 0) {}
    ::close(file);
  }
  void make_room() const { std::filesystem::remove(path() / "someone-elses-file"); }

 private:
  TemporaryFolder folder_{};
  bool mounted_ = false;
};

// A batch too large for the blocks that the WAL has laid out.
std::vector<std::string> large_batch(std::uint64_t after) {
  return bodies_after(after, 3'000);
}

TEST_CASE("disk full: an append is refused whole, reads go on, and it works again without a restart") {
  const SmallDisk disk(8 << 20);
  if (!disk.is_mounted()) return;
  const auto data = disk.path() / "data";
  const int cycles = is_long_run() ? 200 : 15;
  std::uint64_t refused = 0;
  {
    const auto store = open_sqlite(data, {.checkpoint_records = 7, .wal_pages = 100});
    append_records(*store, 50);
    for (int cycle = 0; cycle < cycles; ++cycle) {
      disk.fill_up();
      const std::uint64_t before = store->last_sequence();
      const Hash head = store->head();
      bool is_full = false;
      try {
        store->append(large_batch(before), at_second(cycle));
      } catch (const DiskFull&) {
        is_full = true;
        ++refused;
      }
      REQUIRE(is_full);
      REQUIRE(store->last_sequence() == before);
      REQUIRE(store->head() == head);
      REQUIRE(count_expected_records(*store) == static_cast<std::int64_t>(before));
      disk.make_room();
      append_records(*store, 3, at_second(cycle));
      REQUIRE(count_expected_records(*store) == static_cast<std::int64_t>(before) + 3);
    }
  }
  CHECK(refused == static_cast<std::uint64_t>(cycles));
  CHECK(verify(data).outcome == Verification::Outcome::kIntact);
  CHECK(open_sqlite(data)->last_sequence() == 50U + 3U * static_cast<std::uint64_t>(cycles));
}

TEST_CASE("disk full: small appends until it is full lose nothing, also over a restart on the full disk") {
  const SmallDisk disk(6 << 20);
  if (!disk.is_mounted()) return;
  const auto data = disk.path() / "data";
  auto store = open_sqlite(data, {.checkpoint_records = 10, .wal_pages = 50});
  disk.fill_up();
  std::uint64_t acknowledged = 0;
  bool is_full = false;
  for (int i = 0; i < 10'000 && !is_full; ++i) {
    try {
      append_records(*store, 5, at_second(i));
      acknowledged = store->last_sequence();
    } catch (const DiskFull&) { is_full = true; }
  }
  CHECK(is_full);
  CHECK(acknowledged > 0);  // The WAL's own blocks were there.
  CHECK(count_expected_records(*store) == static_cast<std::int64_t>(acknowledged));
  store.reset();
  store = open_sqlite(data);
  CHECK(count_expected_records(*store) == static_cast<std::int64_t>(acknowledged));
  disk.make_room();
  append_records(*store, 5);
  store.reset();
  CHECK(verify(data).outcome == Verification::Outcome::kIntact);
}

TEST_CASE("disk full: a snapshot that does not fit is refused and the older one stays") {
  const SmallDisk disk(24 << 20);
  if (!disk.is_mounted()) return;
  const auto store = open_sqlite(disk.path() / "data");
  append_records(*store, 2);
  const SnapshotLabel label{
      .sequence = 1, .chain_head = store->hash_at(1), .state_hash = {}, .state_format = 1};
  write_snapshot(disk.path() / "data", label, "small");
  disk.fill_up();
  CHECK_THROWS_AS(
      write_snapshot(disk.path() / "data",
                     {.sequence = 2, .chain_head = store->head(), .state_hash = {}, .state_format = 1},
                     std::string(1 << 20, 'x')),
      DiskFull);
  for (const auto& entry : std::filesystem::directory_iterator(disk.path() / "data" / "snapshots"))
    CHECK(entry.path().extension() == ".bin");  // Half a file would take space that stops need.
  const auto found = newest_snapshot(disk.path() / "data", *store, 1, nullptr);
  REQUIRE(found);
  CHECK(found->content == "small");
}

TEST_CASE("reserve: on a full disk ordinary writes wait, essential ones go through, and it heals by itself") {
  const SmallDisk disk(32 << 20);
  if (!disk.is_mounted()) return;
  const auto data = disk.path() / "data";
  const auto store = open_sqlite(data, {.wal_pages = 200});
  DiskReserve reserve(data, {.ballast_bytes = 8 << 20, .low_water_bytes = 2 << 20});
  CHECK(reserve.holds_ballast());
  CHECK(std::filesystem::file_size(data / "ballast") == 8 << 20);
  for (int cycle = 0; cycle < 5; ++cycle) {
    REQUIRE(reserve.admit(Need::kOrdinary));
    append_records(*store, 10);
    disk.fill_up();
    CHECK_FALSE(reserve.admit(Need::kOrdinary));
    CHECK(reserve.is_low());
    CHECK(reserve.holds_ballast());
    // A thousand stops, far more than the WAL's own blocks hold.
    for (int stop = 0; stop < 1'000; ++stop) {
      REQUIRE(reserve.admit(Need::kEssential));
      append_records(*store, 1);
    }
    CHECK_FALSE(reserve.admit(Need::kOrdinary));  // The space let go is not for them.
    disk.make_room();
    CHECK(reserve.admit(Need::kOrdinary));
    CHECK(reserve.holds_ballast());
    CHECK_FALSE(reserve.is_low());
  }
  CHECK(count_expected_records(*store) == 5 * 1'010);
}

TEST_CASE("reserve: a start on a full disk goes without ballast and takes it later") {
  const SmallDisk disk(32 << 20);
  if (!disk.is_mounted()) return;
  disk.fill_up();
  DiskReserve reserve(disk.path(), {.ballast_bytes = 8 << 20, .low_water_bytes = 2 << 20});
  CHECK_FALSE(reserve.holds_ballast());
  CHECK_FALSE(reserve.admit(Need::kOrdinary));
  CHECK_FALSE(reserve.admit(Need::kEssential));
  CHECK_FALSE(reserve.release());
  disk.make_room();
  CHECK(reserve.admit(Need::kOrdinary));
  CHECK(reserve.holds_ballast());
  CHECK(reserve.release());
  CHECK_FALSE(std::filesystem::exists(disk.path() / "ballast"));
}

}  // namespace
}  // namespace tranche::journal
