// SPDX-License-Identifier: Apache-2.0
// How fast records become durable, beside what the disk and plain SQLite do in the same run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sqlite3.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "base/check.hpp"
#include "base/random.hpp"
#include "base/wall_clock.hpp"
#include "bench/bench.hpp"
#include "journal/snapshot.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/urgent_thread.hpp"
#include "journal/verify.hpp"

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kBodySize = 200;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// On a disk: the working folder's, since a temporary folder may be memory.
class BenchFolder {
 public:
  BenchFolder() {
    std::string name = (std::filesystem::current_path() / "tranche-bench-XXXXXX").string();
    TRANCHE_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  ~BenchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_{};
};

struct Speed {
  double events_per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double max_ms = 0;
};

Speed measure(std::size_t batch, double seconds, const std::function<void()>& append) {
  std::vector<double> taken;
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) {
    const auto before = Clock::now();
    append();
    taken.push_back(seconds_since(before) * 1'000);
  }
  const double total = seconds_since(start);
  std::sort(taken.begin(), taken.end());
  const auto at = [&](double share) {
    return taken[static_cast<std::size_t>(share * static_cast<double>(taken.size() - 1))];
  };
  return {.events_per_second = static_cast<double>(batch * taken.size()) / total,
          .p50_ms = at(0.5),
          .p99_ms = at(0.99),
          .max_ms = taken.back()};
}

std::vector<std::string> batch_of(std::size_t count) {
  Random random(7);
  std::vector<std::string> bodies(count);
  for (auto& body : bodies)
    while (body.size() < kBodySize) body += static_cast<char>(random.below(256));
  return bodies;
}

Speed measure_disk() {
  const BenchFolder folder;
  const int file = ::open((folder.path() / "probe").c_str(), O_WRONLY | O_CREAT, 0600);
  const std::string page(4'096, 'x');
  std::int64_t position = 0;
  const auto speed = measure(1, 1.0, [&] {
    position = (position + 4'096) % (16 << 20);
    TRANCHE_CHECK(::pwrite(file, page.data(), page.size(), position) == 4'096 && ::fdatasync(file) == 0);
  });
  ::close(file);
  return speed;
}

Speed measure_store(std::size_t batch, double seconds) {
  const BenchFolder folder;
  const auto store = journal::open_sqlite(folder.path());
  const auto bodies = batch_of(batch);
  return measure(batch, seconds, [&] { store->append(bodies, wall_clock()); });
}

// The peer: the same rows and settings, without chain, checkpoints, anchors or our own copying of the WAL.
Speed measure_plain_sqlite(std::size_t batch, double seconds) {
  const BenchFolder folder;
  sqlite3* database = nullptr;
  TRANCHE_CHECK(sqlite3_open((folder.path() / "plain.db").c_str(), &database) == SQLITE_OK);
  const auto execute = [&](const char* sql) {
    TRANCHE_CHECK(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  };
  execute(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
      "CREATE TABLE journal(sequence INTEGER PRIMARY KEY, body BLOB NOT NULL)");
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(database, "INSERT INTO journal(body) VALUES(?1)", -1, &insert, nullptr);
  const auto bodies = batch_of(batch);
  const auto speed = measure(batch, seconds, [&] {
    execute("BEGIN IMMEDIATE");
    for (const auto& body : bodies) {
      sqlite3_bind_blob(insert, 1, body.data(), static_cast<int>(body.size()), SQLITE_STATIC);
      TRANCHE_CHECK(sqlite3_step(insert) == SQLITE_DONE);
      sqlite3_reset(insert);
    }
    execute("COMMIT");
  });
  sqlite3_finalize(insert);
  sqlite3_close(database);
  return speed;
}

std::string text(const char* format, double one, double two) {
  char line[128];
  std::snprintf(line, sizeof line, format, one, two);
  return line;
}

void add_disk_rows(std::vector<Row>& rows, const std::string& priority) {
  const Speed disk = measure_disk();
  const std::string what = "disk: 4 KiB write + fdatasync, " + priority;
  rows.push_back({.what = what + ", p50", .value = disk.p50_ms, .unit = "ms", .better = Better::kLower});
  rows.push_back({.what = what + ", p99", .value = disk.p99_ms, .unit = "ms", .better = Better::kLower});
}

void add_append_rows(std::vector<Row>& rows) {
  for (const std::size_t batch : {1U, 10U, 100U, 1'000U}) {
    // Interleaved, so that a disk that slows down slows both.
    Speed ours{};
    Speed plain{};
    for (int round = 0; round < 2; ++round) {
      const Speed one = measure_store(batch, 1.0);
      if (one.events_per_second > ours.events_per_second) ours = one;
      const Speed other = measure_plain_sqlite(batch, 1.0);
      if (other.events_per_second > plain.events_per_second) plain = other;
    }
    const std::string of = ", batches of " + std::to_string(batch);
    rows.push_back({.what = "append" + of,
                    .value = ours.events_per_second,
                    .unit = "events/s",
                    .goal = batch == 100 ? 60'000.0 : 0.0,
                    .peer = text("plain SQLite without a chain %.0f/s", plain.events_per_second, 0),
                    .peer_source = PeerSource::kMeasured});
    rows.push_back({.what = "commit p50" + of,
                    .value = ours.p50_ms,
                    .unit = "ms",
                    .better = Better::kLower,
                    .peer = text("plain SQLite %.3g ms", plain.p50_ms, 0),
                    .peer_source = PeerSource::kMeasured});
    rows.push_back({.what = "commit p99" + of,
                    .value = ours.p99_ms,
                    .unit = "ms",
                    .better = Better::kLower,
                    .peer = text("plain SQLite %.3g ms, longest %.3g ms", plain.p99_ms, plain.max_ms),
                    .peer_source = PeerSource::kMeasured});
    rows.push_back(
        {.what = "commit longest" + of, .value = ours.max_ms, .unit = "ms", .better = Better::kLower});
  }
}

void add_read_rows(std::vector<Row>& rows) {
  constexpr std::uint64_t kRecords = 300'000;
  const BenchFolder folder;
  const auto store = journal::open_sqlite(folder.path());
  const auto bodies = batch_of(1'000);
  while (store->last_sequence() < kRecords) store->append(bodies, wall_clock());
  auto start = Clock::now();
  std::uint64_t bytes = 0;
  store->scan(1, kRecords, [&](std::uint64_t, std::string_view body) {
    bytes += body.size();
    return true;
  });
  rows.push_back({.what = "scan with every record checked",
                  .value = kRecords / seconds_since(start),
                  .unit = "records/s"});
  TRANCHE_CHECK(bytes == kRecords * kBodySize);
  start = Clock::now();
  const auto verification = journal::verify(folder.path());
  TRANCHE_CHECK(verification.outcome == journal::Verification::Outcome::kIntact);
  rows.push_back({.what = "verify a folder with its signatures",
                  .value = kRecords / seconds_since(start),
                  .unit = "records/s"});

  const std::string content(100 << 20, 's');
  const journal::SnapshotLabel label{
      .sequence = kRecords, .chain_head = store->head(), .state_hash = {}, .state_format = 1};
  start = Clock::now();
  journal::write_snapshot(folder.path(), label, content);
  rows.push_back({.what = "snapshot of 100 MiB written and synced",
                  .value = seconds_since(start) * 1'000,
                  .unit = "ms",
                  .better = Better::kLower});
  start = Clock::now();
  TRANCHE_CHECK(journal::newest_snapshot(folder.path(), *store, 1, nullptr).has_value());
  rows.push_back({.what = "snapshot of 100 MiB found and checked",
                  .value = seconds_since(start) * 1'000,
                  .unit = "ms",
                  .better = Better::kLower});
}

std::vector<Row> run_journal() {
  std::vector<Row> rows;
  // As the server's journal thread runs. What it changes is shown by the disk's own figures, before and
  // after.
  add_disk_rows(rows, "at ordinary priority");
  if (journal::make_this_thread_urgent()) add_disk_rows(rows, "at the journal thread's priority");
  add_append_rows(rows);
  add_read_rows(rows);
  return rows;
}

}  // namespace

Suite journal_suite() {
  return {.name = "journal", .about = "durable appends, scans, snapshots", .run = run_journal};
}

}  // namespace tranche::bench
