// SPDX-License-Identifier: Apache-2.0
#include "journal/sqlite_store.hpp"

#include <atomic>
#include <cstdio>
#include <doctest/doctest.h>
#include <fstream>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <thread>

#include "journal/anchors.hpp"
#include "journal/test_support.hpp"

namespace tranche::journal {
namespace {

void run_sql(const std::filesystem::path& folder, const char* sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder / "journal.db").c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

template <class Error>
std::string message_of_open(const std::filesystem::path& folder, SqliteOptions options = {}) {
  try {
    const auto store = open_sqlite(folder, std::move(options));
  } catch (const Error& error) { return error.what(); }
  return "opened";
}

TEST_CASE("store: what was appended is there in order after a restart") {
  const TemporaryFolder folder;
  {
    const auto store = open_sqlite(folder.path() / "deep" / "data");
    CHECK(store->last_sequence() == 0);
    CHECK(store->head() == kGenesis);
    CHECK(store->append(bodies_after(0, 3), at_second(0)) == 3);
    CHECK(store->append({}, at_second(0)) == 3);
    CHECK(store->append(bodies_after(3, 500), at_second(0)) == 503);
  }
  const auto store = open_sqlite(folder.path() / "deep" / "data");
  CHECK(store->last_sequence() == 503);
  CHECK(count_expected_records(*store) == 503);
}

TEST_CASE("store: the chain is the published formula, computed elsewhere") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  // Python: hashlib.blake2b(previous + struct.pack('<Q', n) + body, digest_size=32)
  store->append(std::vector<std::string>{"first", "", std::string("\0third", 6)}, at_second(0));
  CHECK(to_hex(store->hash_at(1)) == "14de4a3d545457ceb91bcbac6bee51f80781756d36381023d181950221e414fe");
  CHECK(to_hex(store->hash_at(2)) == "9a1fc6c69c34412e70bf08c872113b1c8da4ae142f2fbc87720cf3b61cc09f50");
  CHECK(to_hex(store->head()) == "f040636e4cea7f3ece78c173486f0ddbca7931730649cc4ba33e1f920e7c365d");
  CHECK(records_in(*store)[1].second.empty());
  CHECK_THROWS_AS(static_cast<void>(store->hash_at(4)), Corrupt);
}

TEST_CASE("store: a scan shows exactly the asked range, in both directions") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  append_records(*store, 10'000);  // More than one part of a long scan.
  std::vector<std::uint64_t> seen;
  const auto see = [&](std::uint64_t sequence, std::string_view body) {
    CHECK(body == body_of(sequence));
    seen.push_back(sequence);
    return true;
  };
  store->scan(4'000, 9'000, see);
  CHECK(seen.size() == 5'001);
  CHECK((seen.front() == 4'000 && seen.back() == 9'000 && std::is_sorted(seen.begin(), seen.end())));
  seen.clear();
  store->scan_back(9'500, 300, see);
  CHECK(seen.size() == 9'201);
  CHECK((seen.front() == 9'500 && seen.back() == 300 && std::is_sorted(seen.rbegin(), seen.rend())));
  seen.clear();
  store->scan_back(UINT64_MAX, 0, see);
  CHECK((seen.size() == 10'000 && seen.back() == 1));
  seen.clear();
  store->scan(9'999, UINT64_MAX, see);
  CHECK(seen == std::vector<std::uint64_t>{9'999, 10'000});
  seen.clear();
  store->scan(10'001, 20'000, see);
  store->scan_back(5, 6, see);
  CHECK(seen.empty());
  store->scan(1, 100, [&](std::uint64_t sequence, std::string_view) {
    seen.push_back(sequence);
    return sequence < 3;
  });
  CHECK(seen == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("store: readers on other threads see whole prefixes while records are appended") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path(), {.wal_pages = 50});
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::atomic<int> scans = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const auto before = static_cast<std::int64_t>(store->last_sequence());
        if (count_expected_records(*store) < before) ++wrong;
        ++scans;
      }
    });
  }
  for (int batch = 0; batch < 150; ++batch) append_records(*store, 7);
  while (scans < 3) std::this_thread::yield();
  done = true;
  for (auto& reader : readers) reader.join();
  CHECK(wrong == 0);
  CHECK(count_expected_records(*store) == 1'050);
}

TEST_CASE("store: a reader of another process sees the records of a running server and takes no lock") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  append_records(*store, 5);
  const auto reader = open_sqlite_reader(folder.path());
  CHECK(count_expected_records(*reader) == 5);
  append_records(*store, 5);
  CHECK(count_expected_records(*reader) == 10);
  CHECK(reader->head() == store->head());
  CHECK(reader->public_key() == store->public_key());
}

TEST_CASE("store: the background copying keeps the WAL short") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path(), {.wal_pages = 100});
  // 12,000 records are some 1,000 pages. The copying is another thread's work, so it may take a few more
  // appends.
  int batches = 0;
  for (; batches < 20'000; ++batches) {
    append_records(*store, 20);
    if (std::filesystem::file_size(folder.path() / "journal.db") > 1'000'000) break;
  }
  CHECK(batches < 20'000);
}

TEST_CASE("store: a second server on the same data is refused, by name of the first") {
  const TemporaryFolder folder;
  auto store = open_sqlite(folder.path());
  CHECK(message_of_open<AlreadyOpen>(folder.path()).find("process " + std::to_string(::getpid())) !=
        std::string::npos);
  store.reset();
  CHECK(message_of_open<AlreadyOpen>(folder.path()) == "opened");
}

TEST_CASE("store: a newer format and a foreign file are refused with a reason") {
  const TemporaryFolder folder;
  open_sqlite(folder.path()).reset();
  run_sql(folder.path(), "PRAGMA user_version=2");
  CHECK(message_of_open<Unusable>(folder.path()).find("format 2; this release knows formats up to 1") !=
        std::string::npos);
  run_sql(folder.path(), "PRAGMA user_version=1; PRAGMA application_id=7");
  CHECK(message_of_open<Unusable>(folder.path()).find("not written by Tranche") != std::string::npos);
}

TEST_CASE("store: the signing key is private, and nobody else's key will do") {
  const TemporaryFolder folder;
  const auto key = folder.path() / "keys" / "journal.key";
  open_sqlite(folder.path()).reset();
  struct stat about{};
  REQUIRE(::stat(key.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  for (const char* file : {"journal.db", "journal.db-wal"}) {
    REQUIRE(::stat((folder.path() / file).c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
  }
  CHECK(std::filesystem::exists(folder.path() / "keys" / "journal.pub"));
  REQUIRE(::chmod(key.c_str(), 0640) == 0);
  CHECK(message_of_open<Unusable>(folder.path()).find("chmod 600") != std::string::npos);
  std::filesystem::remove(key);
  CHECK(message_of_open<Unusable>(folder.path()).find("missing") != std::string::npos);
  const TemporaryFolder other;
  open_sqlite(other.path()).reset();
  std::filesystem::copy_file(other.path() / "keys" / "journal.key", key);
  CHECK(message_of_open<Unusable>(folder.path()).find("not the key of this journal") != std::string::npos);
}

TEST_CASE("checkpoints: one every so many records and one when time has passed, signed and copied outside") {
  const TemporaryFolder folder;
  std::vector<std::uint64_t> told;
  SqliteOptions options{.checkpoint_records = 10, .on_checkpoint = [&](const Checkpoint& checkpoint) {
                          told.push_back(checkpoint.sequence);
                        }};
  const auto store = open_sqlite(folder.path(), options);
  append_records(*store, 9, at_second(0));
  CHECK(told.empty());
  append_records(*store, 1, at_second(1));
  append_records(*store, 25, at_second(2));
  append_records(*store, 1, at_second(3));
  store->tick(at_second(62));
  CHECK(told == std::vector<std::uint64_t>{10, 35});
  store->tick(at_second(63));
  CHECK(told == std::vector<std::uint64_t>{10, 35, 36});
  store->tick(at_second(1'000));  // Nothing new: nothing to sign.
  CHECK(told.size() == 3);
  std::vector<std::uint64_t> anchored;
  read_anchors(folder.path() / "anchors.jsonl", [&](const Checkpoint& anchor) {
    CHECK(signed_by(anchor, store->public_key()));
    CHECK(anchor.head == store->hash_at(anchor.sequence));
    anchored.push_back(anchor.sequence);
    return true;
  });
  CHECK(anchored == told);
  auto checkpoint = store->checkpoints(0, UINT64_MAX).at(1);
  CHECK(checkpoint.sequence == 35);
  CHECK(checkpoint.at == at_second(2));
  checkpoint.at += Duration(1);
  CHECK_FALSE(signed_by(checkpoint, store->public_key()));
}

TEST_CASE("anchors: lines that a power loss cut or spoiled are written again at the next start") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "anchors.jsonl";
  {
    const auto store = open_sqlite(folder.path(), {.checkpoint_records = 1});
    for (int i = 0; i < 4; ++i) append_records(*store, 1);
  }
  const auto lines = [&] {
    std::vector<std::uint64_t> sequences;
    read_anchors(file, [&](const Checkpoint& anchor) {
      sequences.push_back(anchor.sequence);
      return true;
    });
    return sequences;
  };
  const auto size = std::filesystem::file_size(file);
  for (const std::uintmax_t cut : {1U, 5U, 250U, 300U, 700U}) {
    std::filesystem::resize_file(file, size - cut);
    open_sqlite(folder.path()).reset();
    CHECK(lines() == std::vector<std::uint64_t>{1, 2, 3, 4});
  }
  std::ofstream(file, std::ios::app) << "garbage\n{\"checkpoint\":5,\"hash";
  open_sqlite(folder.path()).reset();
  CHECK(lines() == std::vector<std::uint64_t>{1, 2, 3, 4});
}

TEST_CASE("store: a journal that lost its WAL names the first missing record") {
  const TemporaryFolder folder;
  const TemporaryFolder copy;
  {
    const auto store = open_sqlite(folder.path());
    append_records(*store, 12);
  }
  const auto store = open_sqlite(folder.path());
  append_records(*store, 5);
  std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
  CHECK(message_of_open<Corrupt>(copy.path()) == "opened");
  // A copy made without the WAL, as people do.
  std::filesystem::remove_all(copy.path());
  std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
  std::filesystem::remove(copy.path() / "journal.db-shm");
  std::filesystem::remove(copy.path() / "journal.db-wal");
  try {
    const auto opened = open_sqlite(copy.path());
    FAIL("opened");
  } catch (const Corrupt& corrupt) {
    CHECK(corrupt.sequence == 13);
    CHECK(std::string(corrupt.what()).find("was journal.db-wal lost?") != std::string::npos);
  }
}

TEST_CASE("store: a closed journal can be read where nothing may be written") {
  const TemporaryFolder folder;
  {
    const auto store = open_sqlite(folder.path());
    append_records(*store, 12);
  }
  // As an auditor's copy on a read-only medium: no WAL, no index, and no way to make them.
  std::filesystem::remove(folder.path() / "journal.db-wal");
  std::filesystem::remove(folder.path() / "journal.db-shm");
  if (::mount(folder.path().c_str(), folder.path().c_str(), nullptr, MS_BIND, nullptr) != 0 ||
      ::mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
    std::printf("[skipped] nothing can be mounted here\n");
    return;
  }
  try {
    CHECK(count_expected_records(*open_sqlite_reader(folder.path())) == 12);
  } catch (const std::exception& error) { FAIL_CHECK(std::string(error.what())); }
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace tranche::journal
