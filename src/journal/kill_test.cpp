// SPDX-License-Identifier: Apache-2.0
// A process that appends, acknowledges through a pipe and writes snapshots is killed with SIGKILL, at random
// and at every failpoint. Whatever it acknowledged must be there when the next one starts.
#include <algorithm>
#include <cstdio>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "journal/failpoint.hpp"
#include "journal/snapshot.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"
#include "journal/verify.hpp"

namespace tranche::journal {
namespace {

constexpr SnapshotLabel label_for(std::uint64_t sequence, const Hash& head) {
  return {.sequence = sequence, .chain_head = head, .state_hash = {}, .state_format = 1};
}

[[noreturn]] void serve(const std::filesystem::path& folder,
                        const std::string& failpoints,
                        int acks,
                        std::uint64_t seed) {
  try {
    const auto store = open_sqlite(folder, {.checkpoint_records = 9, .wal_pages = 25});
    arm_failpoints(failpoints);
    Random random(seed);
    for (std::int64_t i = 0;; ++i) {
      append_records(*store, 1 + random.below(12), at_second(i));
      const std::uint64_t last = store->last_sequence();
      if (::write(acks, &last, sizeof last) != sizeof last) ::_exit(3);
      if (i % 20 == 10)
        write_snapshot(folder, label_for(last, store->head()), "state at " + std::to_string(last));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the server under test failed: %s\n", error.what());
    ::_exit(2);
  }
}

// Starts a server, kills it after some acknowledgements (or lets its failpoint do that), and returns the last
// one.
std::uint64_t run_and_kill(const std::filesystem::path& folder,
                           const std::string& failpoints,
                           Random& random) {
  std::array<int, 2> acks{};
  REQUIRE(::pipe(acks.data()) == 0);
  std::fflush(nullptr);  // Or the child prints it again.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(acks[0]);
    serve(folder, failpoints, acks[1], random.next());
  }
  ::close(acks[1]);
  std::uint64_t acknowledged = 0;
  std::uint64_t until_kill = failpoints.empty() ? 1 + random.below(60) : UINT64_MAX;
  for (std::uint64_t last = 0; ::read(acks[0], &last, sizeof last) == sizeof last;) {
    acknowledged = last;
    if (--until_kill == 0) {
      ::usleep(
          static_cast<useconds_t>(random.below(2'000)));  // To hit any moment, not only that after an answer.
      ::kill(child, SIGKILL);
    }
  }
  ::close(acks[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK_MESSAGE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
                "status " << status << " at " << failpoints);
  return acknowledged;
}

void check_nothing_lost(const std::filesystem::path& folder, std::uint64_t acknowledged) {
  const auto store = open_sqlite(folder, {.checkpoint_records = 9, .wal_pages = 25});
  REQUIRE(store->last_sequence() >= acknowledged);
  REQUIRE(count_expected_records(*store) == static_cast<std::int64_t>(store->last_sequence()));
  int bad_snapshots = 0;
  const auto snapshot =
      newest_snapshot(folder, *store, 1, [&](const auto&, const auto&) { ++bad_snapshots; });
  CHECK(bad_snapshots == 0);
  if (snapshot) CHECK(snapshot->content == "state at " + std::to_string(snapshot->label.sequence));
  const auto verification = verify(folder);
  CHECK_MESSAGE(verification.outcome == Verification::Outcome::kIntact, verification.why);
}

TEST_CASE("kill: nothing acknowledged is lost, killed at random") {
  const std::uint64_t seed = test_seed(20'260'103);
  const int cycles =
      is_long_run() ? 1'000 : 15;  // The server itself is killed fifty times: tests/crash_test.py.
  Random random(seed);
  std::uint64_t records = 0;
  auto folder = std::make_unique<TemporaryFolder>();
  for (int cycle = 0; cycle < cycles; ++cycle) {
    if (cycle % 25 == 0)
      folder = std::make_unique<TemporaryFolder>();  // Reading all of a long journal takes long.
    records = run_and_kill(folder->path(), "", random);
    check_nothing_lost(folder->path(), records);
  }
  std::printf("kill: %d cycles at random, seed %llu\n", cycles, static_cast<unsigned long long>(seed));
  CHECK(records > 0);
}

TEST_CASE("kill: nothing acknowledged is lost, killed at each failpoint") {
  const std::uint64_t seed = test_seed(20'260'104);
  const int times = is_long_run() ? 25 : 2;
  Random random(seed);
  int kills = 0;
  for (const auto name : failpoint_names()) {
    CAPTURE(name);
    const TemporaryFolder folder;
    for (int i = 0; i < times; ++i) {
      // Frequent points are passed many times before the kill, rare ones a few times.
      const std::uint64_t most = name.starts_with("append.") ? 50 : 3;
      const auto acknowledged = run_and_kill(
          folder.path(), std::string(name) + ":kill:" + std::to_string(1 + random.below(most)), random);
      check_nothing_lost(folder.path(), acknowledged);
      ++kills;
    }
  }
  std::printf("kill: %d kills at failpoints, seed %llu\n", kills, static_cast<unsigned long long>(seed));
}

}  // namespace
}  // namespace tranche::journal
