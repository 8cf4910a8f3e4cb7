// SPDX-License-Identifier: Apache-2.0
// Samples of every stored form, written once and committed: what an older release wrote must stay readable.
#include <doctest/doctest.h>
#include <fstream>
#include <sqlite3.h>

#include "journal/anchors.hpp"
#include "journal/durable_file.hpp"
#include "journal/snapshot.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"
#include "journal/verify.hpp"

namespace tranche::journal {
namespace {

const std::filesystem::path kSamples = TRANCHE_SOURCE_DIR "/src/journal/testdata";

PublicKey sample_key() {
  PublicKey key{};
  REQUIRE(from_hex(read_file(kSamples / "journal-1.pub").substr(0, 64), key));
  return key;
}

void restore_database(const std::filesystem::path& folder) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder / "journal.db").c_str(), &database) == SQLITE_OK);
  const std::string sql = read_file(kSamples / "format-1.sql");
  CHECK(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

TEST_CASE("golden: a database of format 1 is read and verified") {
  const TemporaryFolder folder;
  restore_database(folder.path());
  const auto reader = open_sqlite_reader(folder.path());
  const auto records = records_in(*reader);
  REQUIRE(records.size() == 12);
  for (const auto& [sequence, body] : records) CHECK(body == "golden record " + std::to_string(sequence));
  CHECK(to_hex(reader->head()) == "e5cc29e73697f8fa2696e290dec7e99cfc57e32f88c8fd2f77de28f67a4f4346");
  const auto result =
      verify(folder.path(), {.public_key = sample_key(), .anchor_file = kSamples / "anchors-1.jsonl"});
  CHECK_MESSAGE(result.outcome == Verification::Outcome::kIntact, result.why);
  CHECK(result.checkpoints == 3);
  CHECK(result.signed_through == 12);
}

TEST_CASE("golden: an export of version 1 is verified") {
  const auto result = verify(kSamples / "export-1.jsonl", {.public_key = sample_key()});
  CHECK_MESSAGE(result.outcome == Verification::Outcome::kIntact, result.why);
  CHECK(result.records == 12);
}

TEST_CASE("golden: a snapshot of version 1 is read") {
  const TemporaryFolder folder;
  restore_database(folder.path());
  std::string bytes;
  const std::string hex = read_file(kSamples / "snapshot-1.hex");
  std::string digits;
  for (const char c : hex)
    if (c != '\n') digits += c;
  bytes.resize(digits.size() / 2);
  REQUIRE(from_hex(digits, reinterpret_cast<unsigned char*>(bytes.data()), bytes.size()));
  std::filesystem::create_directory(folder.path() / "snapshots");
  std::ofstream(folder.path() / "snapshots" / "snapshot-00000000000000000012.bin", std::ios::binary) << bytes;
  const auto snapshot = newest_snapshot(folder.path(), *open_sqlite_reader(folder.path()), 1, nullptr);
  REQUIRE(snapshot);
  CHECK(snapshot->content == "golden state");
  CHECK(snapshot->label.state_hash == hash_of("golden state"));
}

}  // namespace
}  // namespace tranche::journal
