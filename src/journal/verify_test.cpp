// SPDX-License-Identifier: Apache-2.0
#include "journal/verify.hpp"

#include <doctest/doctest.h>
#include <fstream>
#include <sodium.h>
#include <sqlite3.h>
#include <sstream>

#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"

namespace tranche::journal {
namespace {

using Outcome = Verification::Outcome;
constexpr std::uint64_t kRecords = 95;

// A journal of 95 records with checkpoints at 10, 20, ... 90, closed.
void fill(const std::filesystem::path& folder) {
  const auto store = open_sqlite(folder, {.checkpoint_records = 10});
  for (std::uint64_t i = 0; i < kRecords / 5; ++i) append_records(*store, 5);
}

// Edits as someone with the database file and a SQLite shell would.
void edit(const std::filesystem::path& folder, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder / "journal.db").c_str(), &database) == SQLITE_OK);
  char* error = nullptr;
  CHECK_MESSAGE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error) == SQLITE_OK, sql);
  sqlite3_close(database);
}

// The careful forger: changes a record and recomputes every hash after it, from the published formula.
void rewrite_from(const std::filesystem::path& folder, std::uint64_t sequence, const std::string& body) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder / "journal.db").c_str(), &database) == SQLITE_OK);
  sqlite3_stmt* read = nullptr;
  sqlite3_stmt* write = nullptr;
  sqlite3_prepare_v2(
      database,
      "SELECT hash, (SELECT body FROM journal WHERE sequence=?1+1) FROM journal WHERE sequence=?1",
      -1,
      &read,
      nullptr);
  sqlite3_prepare_v2(database, "UPDATE journal SET body=?2, hash=?3 WHERE sequence=?1", -1, &write, nullptr);
  for (std::uint64_t n = sequence; n <= kRecords; ++n) {
    sqlite3_bind_int64(read, 1, static_cast<sqlite3_int64>(n - 1));
    REQUIRE(sqlite3_step(read) == SQLITE_ROW);
    std::string bytes(static_cast<const char*>(sqlite3_column_blob(read, 0)), 32);
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(n >> (8 * i) & 0xFF);
    const std::string old_body(static_cast<const char*>(sqlite3_column_blob(read, 1)),
                               static_cast<std::size_t>(sqlite3_column_bytes(read, 1)));
    const std::string new_body = n == sequence ? body : old_body;
    bytes += new_body;
    std::array<unsigned char, 32> hash{};
    crypto_generichash(
        hash.data(), 32, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), nullptr, 0);
    sqlite3_reset(read);
    sqlite3_bind_int64(write, 1, static_cast<sqlite3_int64>(n));
    sqlite3_bind_blob(write, 2, new_body.data(), static_cast<int>(new_body.size()), SQLITE_STATIC);
    sqlite3_bind_blob(write, 3, hash.data(), 32, SQLITE_STATIC);
    REQUIRE(sqlite3_step(write) == SQLITE_DONE);
    sqlite3_reset(write);
  }
  sqlite3_finalize(read);
  sqlite3_finalize(write);
  sqlite3_close(database);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// An exported journal in lines, and the verdict on it after it was tampered with.
struct Exported {
  TemporaryFolder folder{};
  PublicKey key{};
  std::vector<std::string> lines{};

  explicit Exported(std::uint64_t from = 1, std::uint64_t to = UINT64_MAX) {
    fill(folder.path() / "data");
    const auto store = open_sqlite(folder.path() / "data");
    key = store->public_key();
    std::ostringstream out;
    export_records(*store, from, to, at_second(9), out);
    lines = lines_of(out.str());
  }
  [[nodiscard]] Verification verdict(VerifyOptions options = {}) const {
    const auto file = folder.path() / "export.jsonl";
    std::ofstream out(file);
    for (const auto& line : lines) out << line << '\n';
    out.close();
    if (!options.public_key) options.public_key = key;
    return verify(file, options);
  }
  [[nodiscard]] std::size_t line_of(std::uint64_t sequence) const {
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (lines[i].starts_with("{\"sequence\":" + std::to_string(sequence) + ",")) return i;
    FAIL("no such record");
    return 0;
  }
};

TEST_CASE("verify: an untouched journal is intact, running or closed, and says how far it is signed") {
  const TemporaryFolder folder;
  fill(folder.path());
  const auto check = [&] {
    const auto result = verify(folder.path());
    CHECK(result.outcome == Outcome::kIntact);
    CHECK(result.why.empty());
    CHECK(result.records == kRecords);
    CHECK(result.checkpoints == 9);
    CHECK(result.signed_through == 90);
    return result.head;
  };
  const Hash head = check();
  const auto store = open_sqlite(folder.path());
  CHECK(check() == head);
  CHECK(store->head() == head);
  const auto tail = verify(*store, 50, {});
  CHECK(tail.outcome == Outcome::kIntact);
  CHECK(tail.records == 46);
}

TEST_CASE("verify: an edit with a SQLite shell is found and the first bad record named") {
  struct Edit {
    const char* what = nullptr;
    std::string sql{};
    std::uint64_t first_bad = 0;
  };
  const std::vector<Edit> edits{
      {"changed body", "UPDATE journal SET body = body || x'00' WHERE sequence = 42", 42},
      {"changed hash", "UPDATE journal SET hash = zeroblob(32) WHERE sequence = 42", 42},
      {"short hash", "UPDATE journal SET hash = x'00' WHERE sequence = 42", 42},
      {"body as text", "UPDATE journal SET body = CAST(body AS TEXT) WHERE sequence = 42", 42},
      {"removed first", "DELETE FROM journal WHERE sequence = 1", 1},
      {"removed", "DELETE FROM journal WHERE sequence = 42", 42},
      {"removed and closed up",
       "DELETE FROM journal WHERE sequence = 42; UPDATE journal SET sequence = -sequence WHERE sequence > 42;"
       "UPDATE journal SET sequence = -sequence - 1 WHERE sequence < 0",
       42},
      {"inserted",
       "UPDATE journal SET sequence = -sequence WHERE sequence >= 42;"
       "UPDATE journal SET sequence = 1 - sequence WHERE sequence < 0;"
       "INSERT INTO journal SELECT 42, body, hash FROM journal WHERE sequence = 7",
       42},
      {"inserted far away", "INSERT INTO journal SELECT 500, body, hash FROM journal WHERE sequence = 7", 96},
      {"reordered",
       "UPDATE journal SET sequence = -1 WHERE sequence = 41; UPDATE journal SET sequence = 41 WHERE "
       "sequence = 42;"
       "UPDATE journal SET sequence = 42 WHERE sequence = -1",
       41},
      {"cut off", "DELETE FROM journal WHERE sequence > 60; DELETE FROM checkpoint WHERE sequence > 60", 61},
      {"cut off within a checkpoint", "DELETE FROM journal WHERE sequence > 93", 94},
      {"everything", "DELETE FROM journal; DELETE FROM checkpoint", 1},
      {"forged checkpoint", "UPDATE checkpoint SET at = at + 1 WHERE sequence = 50", 50},
      {"moved checkpoint", "UPDATE checkpoint SET sequence = 51 WHERE sequence = 50", 41},
      {"removed checkpoint", "DELETE FROM checkpoint WHERE sequence = 50", 41},
  };
  for (const auto& [what, sql, first_bad] : edits) {
    CAPTURE(what);
    const TemporaryFolder folder;
    fill(folder.path());
    edit(folder.path(), sql);
    const auto result = verify(folder.path());
    CHECK(result.outcome == Outcome::kBad);
    CHECK(result.first_bad == first_bad);
    CHECK_FALSE(result.why.empty());
  }
}

TEST_CASE("verify: a rewrite with every hash recomputed is found by the signatures") {
  const TemporaryFolder folder;
  fill(folder.path());
  rewrite_from(folder.path(), 42, "the forger's version");
  const auto result = verify(folder.path());
  CHECK(result.outcome == Outcome::kBad);
  CHECK(result.first_bad == 41);  // Signed through 40: the rewrite is somewhere in 41 to 50.
  CHECK(result.why.find("records 41 to 50 were rewritten") != std::string::npos);
  // Without checkpoints in the database the external copy tells the same.
  edit(folder.path(), "DELETE FROM checkpoint WHERE sequence > 40");
  CHECK(verify(folder.path()).first_bad == 41);
}

TEST_CASE("verify: a cut of all copies in the folder is found with an anchor file kept elsewhere") {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  fill(folder.path());
  std::filesystem::copy_file(folder.path() / "anchors.jsonl", elsewhere.path() / "anchors.jsonl");
  edit(folder.path(), "DELETE FROM journal WHERE sequence > 60; DELETE FROM checkpoint WHERE sequence > 60");
  std::filesystem::remove(folder.path() / "anchors.jsonl");
  std::filesystem::remove(folder.path() / "acknowledged");
  CHECK(verify(folder.path()).outcome == Outcome::kIntact);  // Nothing here can tell.
  const auto result = verify(folder.path(), {.anchor_file = elsewhere.path() / "anchors.jsonl"});
  CHECK(result.outcome == Outcome::kBad);
  CHECK(result.first_bad == 61);
  CHECK_THROWS_AS(
      static_cast<void>(open_sqlite(folder.path(), {.anchor_file = elsewhere.path() / "anchors.jsonl"})),
      Corrupt);
}

TEST_CASE("verify: a stranger's key vouches for nothing") {
  const TemporaryFolder folder;
  fill(folder.path());
  const auto result = verify(folder.path(), {.public_key = PublicKey{1, 2, 3}});
  CHECK(result.outcome == Outcome::kBad);
}

TEST_CASE("verify: progress is told, and it can be cancelled") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  for (int i = 0; i < 5; ++i) append_records(*store, 5'000);
  std::vector<std::uint64_t> told;
  std::atomic<bool> cancel = false;
  VerifyOptions options{.progress = [&](std::uint64_t done, std::uint64_t total) {
    CHECK(total == 25'000);
    told.push_back(done);
  }};
  options.cancel = &cancel;
  CHECK(verify(*store, 1, options).outcome == Outcome::kIntact);
  CHECK(told.size() == 6);
  CHECK(std::is_sorted(told.begin(), told.end()));
  options.progress = [&](std::uint64_t, std::uint64_t) { cancel = true; };
  const auto result = verify(*store, 1, options);
  CHECK(result.outcome == Outcome::kCancelled);
  CHECK(result.records < 25'000);
}

TEST_CASE("export: a whole one is intact by itself, and so is a part") {
  CHECK(Exported().verdict().outcome == Outcome::kIntact);
  CHECK(Exported().verdict().records == kRecords);
  CHECK(Exported().verdict().signed_through == kRecords);
  CHECK(Exported(33, 77).verdict().outcome == Outcome::kIntact);
  CHECK(Exported(33, 77).verdict().records == 45);
  const Exported empty(200, 300);
  CHECK(empty.lines.size() == 2);
  CHECK(empty.verdict().outcome == Outcome::kIntact);
}

TEST_CASE("export: the bodies come back byte for byte") {
  const Exported exported;
  // Decoded by the rules of RFC 4648 here, not by the code that wrote them.
  const std::string& line = exported.lines[exported.line_of(17)];
  const auto start = line.find("\"body\":\"") + 8;
  const std::string text = line.substr(start, line.size() - 2 - start);
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string body;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t group = 0;
    int bytes = 3;
    for (std::size_t j = i; j < i + 4; ++j) {
      if (text[j] == '=') --bytes;
      group = group << 6 | static_cast<std::uint32_t>(text[j] == '=' ? 0 : alphabet.find(text[j]));
    }
    for (int k = 0; k < bytes; ++k) body += static_cast<char>(group >> (16 - 8 * k) & 0xFF);
  }
  CHECK(body == body_of(17));
}

TEST_CASE("export: removing, repeating, swapping or changing a line is found and the record named") {
  {
    auto exported = Exported();
    exported.lines.erase(exported.lines.begin() + static_cast<std::ptrdiff_t>(exported.line_of(42)));
    CHECK(exported.verdict().first_bad == 42);
  }
  {
    auto exported = Exported();
    const auto line = exported.line_of(42);
    exported.lines.insert(exported.lines.begin() + static_cast<std::ptrdiff_t>(line), exported.lines[line]);
    CHECK(exported.verdict().first_bad == 43);
  }
  {
    auto exported = Exported();
    std::swap(exported.lines[exported.line_of(42)], exported.lines[exported.line_of(43)]);
    CHECK(exported.verdict().first_bad == 42);
  }
  {
    auto exported = Exported();  // The end is kept, and the last records are not.
    exported.lines.erase(exported.lines.begin() + static_cast<std::ptrdiff_t>(exported.line_of(91)),
                         exported.lines.end() - 1);
    CHECK(exported.verdict().first_bad == 91);
  }
  {
    auto exported = Exported();
    exported.lines.resize(exported.line_of(61));
    CHECK(exported.verdict().first_bad == 61);
  }
  {
    // Cut at a checkpoint, and its genuine signature passed off as the end; the header made to agree.
    auto exported = Exported();
    exported.lines.resize(exported.line_of(61));
    exported.lines.push_back("{\"end\":" + exported.lines.back() + "}");
    auto& header = exported.lines.front();
    header.replace(header.find("\"to\":95"), 7, "\"to\":60");
    CHECK(exported.verdict().outcome == Outcome::kBad);
    CHECK(exported.verdict().first_bad == 61);
  }
  {
    auto exported = Exported();
    exported.lines.push_back(exported.lines[exported.line_of(95)]);
    CHECK(exported.verdict().outcome == Outcome::kBad);
  }
}

TEST_CASE("export: every changed character of it is found") {
  Exported exported(38, 44);
  REQUIRE(exported.verdict().outcome == Outcome::kIntact);
  for (auto& line : exported.lines) {
    for (char& character : line) {
      const char original = character;
      character = static_cast<char>(original ^ 1);
      REQUIRE(exported.verdict().outcome == Outcome::kBad);
      character = original;
    }
  }
  CHECK(exported.verdict().outcome == Outcome::kIntact);
}

}  // namespace
}  // namespace tranche::journal
