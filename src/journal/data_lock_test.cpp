// SPDX-License-Identifier: Apache-2.0
#include "journal/data_lock.hpp"

#include <array>
#include <cstdio>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "journal/error.hpp"
#include "journal/sqlite_store.hpp"
#include "journal/test_support.hpp"

namespace tranche::journal {
namespace {

enum Answer : char { kWon = 'w', kRefused = 'r', kOther = 'x' };

// A contender waits for the starting signal, tries, tells, and holds what it won until it is let go.
[[noreturn]] void contend(const std::filesystem::path& folder, int start, int answers, int hold) {
  char ignored = 0;
  static_cast<void>(::read(start, &ignored, 1));
  char answer = kOther;
  std::unique_ptr<Store> store;
  try {
    store = open_sqlite(folder, {.wal_pages = 10});
    answer = kWon;
  } catch (const AlreadyOpen&) { answer = kRefused; } catch (...) {
  }
  static_cast<void>(::write(answers, &answer, 1));
  static_cast<void>(::read(hold, &ignored, 1));
  store.reset();
  ::_exit(0);
}

TEST_CASE("lock: of many servers that start at once on the same data exactly one wins") {
  const int races = is_long_run() ? 1'000 : 8;
  constexpr int kContenders = 8;
  for (int race = 0; race < races; ++race) {
    const TemporaryFolder folder;
    std::array<int, 2> start{};
    std::array<int, 2> answers{};
    std::array<int, 2> hold{};
    REQUIRE((::pipe(start.data()) == 0 && ::pipe(answers.data()) == 0 && ::pipe(hold.data()) == 0));
    std::vector<pid_t> contenders;
    std::fflush(nullptr);  // Or every child prints it again.
    for (int i = 0; i < kContenders; ++i) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        ::close(start[1]);
        ::close(hold[1]);
        contend(folder.path(), start[0], answers[1], hold[0]);
      }
      contenders.push_back(child);
    }
    ::close(start[1]);  // The signal: everyone's read ends.
    int won = 0;
    int refused = 0;
    for (int i = 0; i < kContenders; ++i) {
      char answer = kOther;
      REQUIRE(::read(answers[0], &answer, 1) == 1);
      won += answer == kWon ? 1 : 0;
      refused += answer == kRefused ? 1 : 0;
    }
    CHECK(won == 1);
    CHECK(refused == kContenders - 1);
    ::close(hold[1]);
    for (const pid_t child : contenders) ::waitpid(child, nullptr, 0);
    for (const int end : {start[0], answers[0], answers[1], hold[0]}) ::close(end);
  }
}

}  // namespace
}  // namespace tranche::journal
