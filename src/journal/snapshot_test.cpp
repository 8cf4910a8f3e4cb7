// SPDX-License-Identifier: Apache-2.0
#include "journal/snapshot.hpp"

#include <doctest/doctest.h>
#include <fstream>
#include <map>

#include "journal/failpoint.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"

namespace tranche::journal {
namespace {

constexpr std::uint32_t kStateFormat = 3;

SnapshotLabel label_at(const Reader& store, std::uint64_t sequence) {
  return {.sequence = sequence,
          .chain_head = store.hash_at(sequence),
          .state_hash = hash_of("state at " + std::to_string(sequence)),
          .state_format = kStateFormat};
}

struct Found {
  std::optional<Snapshot> snapshot{};
  std::map<std::string, std::string> bad{};  // Name to reason.
};

Found find(const std::filesystem::path& folder, const Reader& store) {
  Found found;
  found.snapshot = newest_snapshot(
      folder, store, kStateFormat, [&](const std::filesystem::path& file, const std::string& why) {
        found.bad[file.filename()] = why;
      });
  return found;
}

void spoil(const std::filesystem::path& file, std::size_t position) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(position));
  const char byte = static_cast<char>(stream.get() ^ 0x10);
  stream.seekp(static_cast<std::streamoff>(position));
  stream.put(byte);
}

std::filesystem::path file_of(const std::filesystem::path& folder, int sequence) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "snapshot-%020d.bin", sequence);
  return folder / "snapshots" / name.data();
}

TEST_CASE("snapshot: the newest is found, whole, and two are kept") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  append_records(*store, 30);
  CHECK_FALSE(find(folder.path(), *store).snapshot);
  for (const std::uint64_t sequence : {5U, 9U, 10U, 20U})
    write_snapshot(folder.path(), label_at(*store, sequence), "content " + std::to_string(sequence));
  const auto found = find(folder.path(), *store);
  REQUIRE(found.snapshot);
  CHECK(found.snapshot->content == "content 20");
  CHECK(found.snapshot->label.sequence == 20);
  CHECK(found.snapshot->label.state_hash == hash_of("state at 20"));
  CHECK(found.snapshot->label.chain_head == store->hash_at(20));
  CHECK(found.bad.empty());
  CHECK_FALSE(std::filesystem::exists(file_of(folder.path(), 9)));
  CHECK(std::filesystem::exists(file_of(folder.path(), 10)));
}

TEST_CASE("snapshot: any flipped byte is noticed, the file set aside and the older one used") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  append_records(*store, 3);
  write_snapshot(folder.path(), label_at(*store, 1), "older");
  const std::string content = "newer, with some content to spoil";
  write_snapshot(folder.path(), label_at(*store, 2), content);
  const auto size = std::filesystem::file_size(file_of(folder.path(), 2));
  for (std::size_t position = 0; position < size; ++position) {
    write_snapshot(folder.path(), label_at(*store, 2), content);
    spoil(file_of(folder.path(), 2), position);
    const auto found = find(folder.path(), *store);
    REQUIRE(found.snapshot);
    REQUIRE(found.snapshot->content == "older");
    REQUIRE(found.bad.contains(file_of(folder.path(), 2).filename()));
    REQUIRE(std::filesystem::exists(file_of(folder.path(), 2).string() + ".bad"));
  }
}

TEST_CASE("snapshot: one cut anywhere, renamed, ahead of the journal or of another history is not used") {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  const auto store = open_sqlite(folder.path());
  const auto other = open_sqlite(elsewhere.path());
  append_records(*store, 3);
  other->append(std::vector<std::string>{"another", "history"}, at_second(0));
  write_snapshot(folder.path(), label_at(*other, 2), "of another history");
  CHECK(find(folder.path(), *store).bad.at(file_of("", 2).filename()) == "it belongs to another history");
  auto ahead = label_at(*store, 3);
  ahead.sequence = 9;
  write_snapshot(folder.path(), ahead, "ahead");
  CHECK(find(folder.path(), *store).bad.at(file_of("", 9).filename()).starts_with("it is ahead"));
  write_snapshot(folder.path(), label_at(*store, 2), "good");
  std::filesystem::copy_file(file_of(folder.path(), 2), file_of(folder.path(), 3));
  auto found = find(folder.path(), *store);
  CHECK(found.bad.at(file_of("", 3).filename()) == "its name does not match its content");
  CHECK(found.snapshot->content == "good");
  for (std::uintmax_t size = std::filesystem::file_size(file_of(folder.path(), 2)); size-- > 0;) {
    write_snapshot(folder.path(), label_at(*store, 2), "good");
    std::filesystem::resize_file(file_of(folder.path(), 2), size);
    REQUIRE_FALSE(find(folder.path(), *store).snapshot);
  }
}

TEST_CASE("snapshot: one in another state format is passed over but not thrown away") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  append_records(*store, 3);
  auto label = label_at(*store, 2);
  label.state_format = kStateFormat + 1;
  write_snapshot(folder.path(), label_at(*store, 1), "ours");
  write_snapshot(folder.path(), label, "theirs");
  const auto found = find(folder.path(), *store);
  CHECK(found.snapshot->content == "ours");
  CHECK(found.bad.empty());
  CHECK(std::filesystem::exists(file_of(folder.path(), 2)));
}

TEST_CASE("snapshot: a writer that dies or fails at any step leaves the older one in force") {
  const TemporaryFolder folder;
  const auto store = open_sqlite(folder.path());
  append_records(*store, 3);
  write_snapshot(folder.path(), label_at(*store, 1), "older");
  for (const std::string point :
       {"snapshot.begin", "file.written", "file.synced", "file.renamed", "snapshot.pruned"}) {
    for (const std::string action : {"kill", "error"}) {
      std::filesystem::remove(file_of(folder.path(), 2));
      arm_failpoints(point + ":" + action);
      SnapshotChild child;
      child.start(folder.path(), *store, label_at(*store, 2), [] { return std::string("newer"); });
      arm_failpoints("");
      CHECK(child.wait() == SnapshotChild::Outcome::kFailed);
      const bool was_renamed = point == "file.renamed" || point == "snapshot.pruned";
      const auto found = find(folder.path(), *store);
      REQUIRE(found.snapshot);
      CHECK(found.snapshot->content == (was_renamed ? "newer" : "older"));
      CHECK(found.bad.empty());
    }
  }
}

TEST_CASE("snapshot: a forked child writes the state of its moment while the parent goes on") {
  const TemporaryFolder folder;
  auto store = open_sqlite(folder.path());
  append_records(*store, 3);
  std::string state = "state after three";
  SnapshotChild child;
  CHECK(child.poll() == SnapshotChild::Outcome::kNone);
  child.start(folder.path(), *store, label_at(*store, 3), [&] { return state; });
  state = "changed by the parent";
  append_records(*store, 3);
  CHECK(child.wait() == SnapshotChild::Outcome::kWritten);
  CHECK(child.poll() == SnapshotChild::Outcome::kNone);
  CHECK(find(folder.path(), *store).snapshot->content == "state after three");
  CHECK_THROWS_AS(static_cast<void>(open_sqlite(folder.path())), AlreadyOpen);
}

TEST_CASE("snapshot: a child that still writes does not keep the next server from starting") {
  const TemporaryFolder folder;
  auto store = open_sqlite(folder.path());
  append_records(*store, 1);
  arm_failpoints("file.written:delay");
  SnapshotChild child;
  child.start(folder.path(), *store, label_at(*store, 1), [] { return std::string("slow"); });
  arm_failpoints("");
  // The child lets go first thing, but it is another process: the lock is free as soon as it has run a
  // little.
  store.reset();
  for (int tries = 0; !store && tries < 100'000; ++tries) {
    try {
      store = open_sqlite(folder.path());
    } catch (const AlreadyOpen&) {}
  }
  CHECK(store);
}

}  // namespace
}  // namespace tranche::journal
