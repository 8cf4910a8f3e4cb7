// SPDX-License-Identifier: Apache-2.0
// Every byte of a small journal is changed in turn (in ./check those that are not empty space, and a part of
// the WAL). Either the damage is noticed and a record named, or the byte did not matter and every record is
// still right. Wrong records are never shown.
#include <cstdio>
#include <doctest/doctest.h>
#include <fstream>

#include "journal/durable_file.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"
#include "journal/verify.hpp"

namespace tranche::journal {
namespace {

constexpr std::int64_t kRecords = 9;

struct Flips {
  int noticed = 0;
  int harmless = 0;
  int wrong = 0;
};

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// What a reader makes of the folder as it is.
void judge(const std::filesystem::path& folder, Flips& flips) {
  try {
    const auto reader = open_sqlite_reader(folder);
    const std::int64_t count = count_expected_records(*reader);
    // A tail that is gone cannot be seen by reading; the marks outside tell.
    if (count == kRecords) {
      ++flips.harmless;
    } else if (count >= 0 && verify(folder).outcome == Verification::Outcome::kBad) {
      ++flips.noticed;
    } else {
      ++flips.wrong;
    }
  } catch (const Corrupt& corrupt) {
    CHECK(corrupt.sequence <= static_cast<std::uint64_t>(kRecords) + 1);
    ++flips.noticed;
  } catch (const std::runtime_error&) {
    ++flips.noticed;  // Not even a journal any more.
  }
}

Flips flip_each_byte(const std::filesystem::path& folder, const std::string& file, std::size_t every) {
  const std::string good = read_file(folder / file);
  Flips flips;
  std::size_t skipped = 0;
  for (std::size_t position = 0; position < good.size(); ++position) {
    const bool is_empty_space = good.compare(position, 16, std::string(16, '\0')) == 0;
    if (!is_long_run() && (is_empty_space || ++skipped % every != 0)) continue;
    std::string bad = good;
    bad[position] = static_cast<char>(bad[position] ^ (1 << (position % 8)));
    std::filesystem::remove(folder / "journal.db-shm");
    write_file(folder / file, bad);
    judge(folder, flips);
  }
  std::filesystem::remove(folder / "journal.db-shm");
  write_file(folder / file, good);
  std::printf(
      "bit flip: %d bytes of %s noticed, %d without effect\n", flips.noticed, file.c_str(), flips.harmless);
  return flips;
}

void fill(const std::filesystem::path& folder) {
  const auto store = open_sqlite(folder, {.checkpoint_records = 4, .wal_pages = 4});
  for (int i = 0; i < kRecords / 3; ++i) append_records(*store, 3);
}

TEST_CASE("bit flip: every byte of the database is tried, and no wrong record is ever shown") {
  const TemporaryFolder folder;
  fill(folder.path());
  std::filesystem::remove(folder.path() / "journal.db-wal");  // Closed: everything is in the database.
  Flips flips;
  judge(folder.path(), flips);
  REQUIRE(flips.harmless == 1);
  const std::string content = read_file(folder.path() / "journal.db");
  flips = flip_each_byte(folder.path(), "journal.db", 1);
  CHECK(flips.wrong == 0);
  CHECK(flips.noticed > 1'500);

  // Inside a body every single byte counts, and the very record is named.
  for (const std::uint64_t sequence : {1U, 7U, 9U}) {
    const std::string body = body_of(sequence);
    const auto at = content.find(body);
    REQUIRE(at != std::string::npos);
    for (std::size_t i = 0; i < body.size(); ++i) {
      std::string bad = content;
      bad[at + i] = static_cast<char>(bad[at + i] ^ 0x04);
      write_file(folder.path() / "journal.db", bad);
      const auto result = verify(folder.path());
      REQUIRE(result.outcome == Verification::Outcome::kBad);
      REQUIRE(result.first_bad == sequence);
    }
    write_file(folder.path() / "journal.db", content);
  }
}

TEST_CASE("bit flip: every byte of the WAL is tried, and a commit it hides is missed by name") {
  const TemporaryFolder source;
  const TemporaryFolder folder;
  const auto store =
      open_sqlite(source.path(),
                  {.checkpoint_records = 4, .wal_pages = 8, .wal_checkpointing = WalCheckpointing::kInline});
  for (int i = 0; i < kRecords / 3; ++i) append_records(*store, 3);
  std::filesystem::copy(source.path(), folder.path(), std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder.path() / "journal.db-shm");
  Flips flips;
  judge(folder.path(), flips);
  REQUIRE(flips.harmless == 1);
  flips = flip_each_byte(folder.path(), "journal.db-wal", 7);
  CHECK(flips.wrong == 0);
  CHECK(flips.noticed > 0);
}

TEST_CASE("bit flip: a server does not start on a journal whose last commit is damaged") {
  const TemporaryFolder source;
  const TemporaryFolder folder;
  const auto store = open_sqlite(source.path(), {.wal_pages = 1'000});
  append_records(*store, 12);
  append_records(*store, 3);
  std::filesystem::copy(source.path(), folder.path(), std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder.path() / "journal.db-shm");
  std::string wal = read_file(folder.path() / "journal.db-wal");
  const auto at = wal.rfind(body_of(15));
  REQUIRE(at != std::string::npos);
  wal[at] = static_cast<char>(wal[at] ^ 1);
  write_file(folder.path() / "journal.db-wal", wal);
  try {
    const auto opened = open_sqlite(folder.path());
    FAIL("opened");
  } catch (const Corrupt& corrupt) { CHECK(corrupt.sequence == 13); }
}

}  // namespace
}  // namespace tranche::journal
