// SPDX-License-Identifier: Apache-2.0
#include "guard/vram_account.hpp"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tranche::guard {
namespace {

template <class T>
T* shared() {
  void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return static_cast<T*>(memory);
}

std::uint64_t sum_of_slots(const LedgerRegion& ledger) {
  std::uint64_t sum = 0;
  for (const ProcessSlot& slot : ledger.processes) sum += slot.used[0].load().high;
  return sum;
}

// Random reservations and releases; `held` is the child's own count, kept apart from the account under test.
[[noreturn]] void churn(
    LedgerRegion* ledger, std::uint64_t limit, unsigned seed, int rounds, std::uint64_t* held) {
  std::minstd_rand random(seed);
  const std::uint32_t slot = claim_slot(*ledger, own_identity());
  VramAccount account(ledger, 0);
  std::vector<std::uint64_t> live;
  for (int i = 0; i != rounds; ++i) {
    if (live.empty() || random() % 3 != 0) {
      const std::uint64_t bytes = 1 + random() % 5000;
      const VramAnswer answer = account.reserve(slot, bytes, limit);
      if (answer.granted && answer.used > limit) ::_exit(3);
      if (answer.granted) {
        live.push_back(bytes);
        *held += bytes;
      }
    } else {
      account.release(slot, live.back());
      *held -= live.back();
      live.pop_back();
    }
  }
  ::_exit(0);
}

TEST_CASE("vram account: the last byte fits and one more does not") {
  auto* ledger = shared<LedgerRegion>();
  VramAccount account(ledger, 0);
  const std::uint32_t slot = claim_slot(*ledger, own_identity());
  CHECK(account.reserve(slot, 999, 1000).granted);
  const VramAnswer refused = account.reserve(slot, 2, 1000);
  CHECK_FALSE(refused.granted);
  CHECK(refused.used == 999);
  CHECK(account.reserve(slot, 1, 1000).granted);
  CHECK_FALSE(account.reserve(slot, 1, 1000).granted);
  CHECK(account.reserve(slot, 0, 1000).granted);
  account.release(slot, 999);
  CHECK(account.used() == 1);
  CHECK(account.peak() == 1000);
}

TEST_CASE("vram account: sizes near 2^31, 2^32 and 2^64 neither wrap nor slip through") {
  auto* ledger = shared<LedgerRegion>();
  VramAccount account(ledger, 3);
  const std::uint32_t slot = claim_slot(*ledger, own_identity());
  const std::uint64_t limit = 80ULL << 30;
  for (const std::uint64_t bytes : {1ULL << 31, (1ULL << 31) + 1, 1ULL << 32, (1ULL << 32) + 1}) {
    CHECK(account.reserve(slot, bytes, limit).granted);
    CHECK(account.used() == bytes);
    account.release(slot, bytes);
  }
  for (const std::uint64_t bytes : {~0ULL, ~4095ULL, 1ULL << 63, 1ULL << 44})
    CHECK_FALSE(account.reserve(slot, bytes, limit).granted);
  CHECK(account.used() == 0);
}

TEST_CASE("vram account: a lowered limit refuses until enough was freed") {
  auto* ledger = shared<LedgerRegion>();
  VramAccount account(ledger, 0);
  const std::uint32_t slot = claim_slot(*ledger, own_identity());
  REQUIRE(account.reserve(slot, 800, 1000).granted);
  CHECK_FALSE(account.reserve(slot, 1, 500).granted);
  account.release(slot, 301);
  CHECK(account.reserve(slot, 1, 500).granted);
}

TEST_CASE("vram account: threads of one process add up") {
  auto* ledger = shared<LedgerRegion>();
  const std::uint32_t slot = claim_slot(*ledger, own_identity());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      VramAccount account(ledger, 0);
      for (int i = 0; i < 5000; ++i) {
        if (account.reserve(slot, 7, 1'000'000'000).granted && i % 2 == 0) account.release(slot, 7);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(VramAccount(ledger, 0).used() == 4ULL * 2500 * 7);
  CHECK(VramAccount(ledger, 0).used_by(slot) == 4ULL * 2500 * 7);
}

TEST_CASE("vram account: 64 processes at random never pass the limit, and the account ends exact") {
  auto* ledger = shared<LedgerRegion>();
  struct Tallies {
    std::uint64_t held[64];
  };
  auto* tallies = shared<Tallies>();
  const std::uint64_t limit = 100'000;
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 64; ++i) {
    const pid_t child = ::fork();
    if (child == 0) churn(ledger, limit, i + 1, 2000, &tallies->held[i]);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  std::uint64_t held = 0;
  for (const std::uint64_t one : tallies->held) held += one;
  CHECK(VramAccount(ledger, 0).used() == held);
  CHECK(sum_of_slots(*ledger) == held);
  CHECK(VramAccount(ledger, 0).peak() <= limit);
  CHECK(reclaim_dead(*ledger, own_identity()) == held);
  CHECK(VramAccount(ledger, 0).used() == 0);
}

TEST_CASE("vram account: whoever is killed at any instruction, the rest is exact after reclaim") {
  const int kills = std::getenv("TRANCHE_LONG") != nullptr ? 10'000 : 100;
  auto* ledger = shared<LedgerRegion>();
  auto* tallies = shared<std::uint64_t[2]>();
  const std::uint64_t limit = 1'000'000;
  const pid_t survivor = ::fork();
  if (survivor == 0) churn(ledger, limit, 77, -1, &(*tallies)[0]);
  std::minstd_rand random(4711);
  MESSAGE("seed 4711, kills " << kills);
  for (int i = 0; i < kills; ++i) {
    const pid_t victim = ::fork();
    if (victim == 0) churn(ledger, limit, static_cast<unsigned>(i + 100), -1, &(*tallies)[1]);
    ::usleep(static_cast<useconds_t>(200 + random() % 1500));
    ::kill(victim, i % 7 == 0 ? SIGSTOP : SIGKILL);  // A stopped one holds nobody up either.
    ::kill(victim, SIGKILL);
    ::waitpid(victim, nullptr, 0);
    reclaim_dead(*ledger, own_identity());
  }
  ::kill(survivor, SIGSTOP);
  int status = 0;
  ::waitpid(survivor, &status, WUNTRACED);
  // The survivor may have been stopped between the head and its slot: whoever comes next finishes that for
  // it.
  const std::uint32_t next = claim_slot(*ledger, own_identity());
  VramAccount account(ledger, 0);
  CHECK(account.reserve(next, 1, limit + 1).granted);
  account.release(next, 1);
  // And between an operation and its own count of it; one operation at most.
  const std::uint64_t used = VramAccount(ledger, 0).used();
  const std::uint64_t tally = (*tallies)[0];
  CHECK((used > tally ? used - tally : tally - used) <= 5000);
  CHECK(sum_of_slots(*ledger) == used);
  ::kill(survivor, SIGKILL);
  ::waitpid(survivor, nullptr, 0);
  reclaim_dead(*ledger, own_identity());
  CHECK(VramAccount(ledger, 0).used() == 0);
}

TEST_CASE("process slots: a live process is never reclaimed for a dead one with its pid") {
  auto* ledger = shared<LedgerRegion>();
  const ProcessIdentity self = own_identity();
  ProcessIdentity former = self;  // The same pid in the same namespace, born earlier.
  former.start_time -= 1;
  const std::uint32_t old_slot = claim_slot(*ledger, former);
  const std::uint32_t slot = claim_slot(*ledger, self);
  VramAccount account(ledger, 0);
  REQUIRE(account.reserve(old_slot, 10, 100).granted);
  REQUIRE(account.reserve(slot, 20, 100).granted);
  CHECK(reclaim_dead(*ledger, self) == 10);
  CHECK(account.used_by(slot) == 20);
  CHECK(reclaim_slot(*ledger, slot, former) == 0);
  CHECK(account.used() == 20);
}

// The main thread ends while another goes on: the kernel calls the process a zombie, but it has all it had.
TEST_CASE("process slots: a process lives, and holds its memory, until its last thread is gone") {
  auto* ledger = shared<LedgerRegion>();
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] { ::pause(); }).detach();
    ::syscall(SYS_exit, 0);  // This thread alone.
  }
  const auto state_of = [&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string number;
    std::string name;
    char state = 0;
    stat >> number >> name >> state;
    return state;
  };
  const ProcessIdentity self = own_identity();
  const ProcessIdentity owner = identity_of(static_cast<std::uint32_t>(child));
  while (state_of() != 'Z') ::usleep(200);
  const std::uint32_t slot = claim_slot(*ledger, owner);
  REQUIRE(VramAccount(ledger, 0).reserve(slot, 10, 100).granted);
  CHECK(liveness(owner, self) == Liveness::kAlive);
  CHECK(identity_of(static_cast<std::uint32_t>(child)) == owner);
  CHECK(reclaim_dead(*ledger, self) == 0);
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // Dead, and a zombie still.
  CHECK(liveness(owner, self) == Liveness::kDead);
  CHECK(reclaim_dead(*ledger, self) == 10);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("process slots: another namespace's process is left for the broker to judge") {
  auto* ledger = shared<LedgerRegion>();
  const ProcessIdentity stranger{4'000'000, 12345, 99};
  const std::uint32_t slot = claim_slot(*ledger, stranger);
  REQUIRE(VramAccount(ledger, 0).reserve(slot, 10, 100).granted);
  CHECK(reclaim_dead(*ledger, own_identity()) == 0);
  CHECK(reclaim_slot(*ledger, slot, stranger) == 10);
}

TEST_CASE("process slots: 100,000 recycled pids, none taken for another") {
  auto* ledger = shared<LedgerRegion>();
  const ProcessIdentity self = own_identity();
  int wrong = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const ProcessIdentity was{42, 7, 1000 + i};
    const ProcessIdentity now{42, 7, 1001 + i};
    const std::uint32_t slot = claim_slot(*ledger, now);
    VramAccount(ledger, 0).reserve(slot, 5, 100);
    if (reclaim_slot(*ledger, slot, was) != 0) ++wrong;
    if (reclaim_slot(*ledger, slot, now) != 5) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(VramAccount(ledger, 0).used() == 0);
  CHECK(self.start_time != 0);
}

}  // namespace
}  // namespace tranche::guard
