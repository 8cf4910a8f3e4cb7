// SPDX-License-Identifier: Apache-2.0
#include "guard/context_size.hpp"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <thread>
#include <vector>

namespace tranche::guard {
namespace {

constexpr std::uint64_t kBytes = 300ULL << 20;

struct Tenant {
  std::unique_ptr<LedgerRegion> ledger = std::make_unique<LedgerRegion>();
  // Slots of processes that are alive.
  explicit Tenant(std::uint32_t alive) {
    for (std::uint32_t slot = 0; slot < alive; ++slot)
      ledger->processes[slot].identity.replace({}, {slot + 1, 1});
  }
};

}  // namespace

TEST_CASE("context size: the first one is made alone, all others know it") {
  Tenant tenant(8);
  std::atomic<int> unknown{0}, making{0}, most{0};
  std::vector<std::thread> threads;
  for (std::uint32_t slot = 0; slot < 8; ++slot) {
    threads.emplace_back([&, slot] {
      ContextSize size(*tenant.ledger, 0, slot);
      const std::uint64_t bytes = size.learn_or_claim();
      if (bytes != 0) {
        CHECK(bytes == kBytes);
        return;
      }
      ++unknown;
      most = std::max(most.load(), ++making);
      std::this_thread::yield();
      --making;
      size.tell(kBytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(unknown == 1);
  CHECK(most == 1);
}

TEST_CASE("context size: who fails, or dies, leaves it to the next") {
  Tenant tenant(1);
  { CHECK(ContextSize(*tenant.ledger, 0, 0).learn_or_claim() == 0); }
  CHECK(tenant.ledger->devices[0].context_bytes.load() == 0);
  ContextSize killed(*tenant.ledger, 0, 5);  // Slot five has no process.
  CHECK(killed.learn_or_claim() == 0);
  ContextSize next(*tenant.ledger, 0, 0);
  CHECK(next.learn_or_claim() == 0);
  next.tell(kBytes);
  CHECK(ContextSize(*tenant.ledger, 0, 0).learn_or_claim() == kBytes);
}

TEST_CASE("context size: the largest counts, and a device that tells nothing is not waited for") {
  Tenant tenant(2);
  ContextSize first(*tenant.ledger, 0, 0);
  CHECK(first.learn_or_claim() == 0);
  first.tell(0);
  ContextSize second(*tenant.ledger, 0, 1);
  CHECK(second.learn_or_claim() == 0);
  second.tell(kBytes);
  second.tell(kBytes / 2);
  CHECK(first.learn_or_claim() == kBytes);
}

}  // namespace tranche::guard
