// SPDX-License-Identifier: Apache-2.0
#include "guard/context_size.hpp"

#include <unistd.h>

namespace tranche::guard {
namespace {

constexpr std::uint64_t kClaimed = 1ULL << 63;  // The slot below it is finding out.
constexpr std::uint64_t kUntold = 1ULL << 62;   // Devices here do not tell: there is nothing to wait for.
constexpr int kPolls = 10'000;
constexpr useconds_t kPollUs = 1'000;

bool is_size(std::uint64_t word) {
  return word != 0 && word < kUntold;
}

}  // namespace

// Failed, or did not fit: the next may try.
ContextSize::~ContextSize() {
  std::uint64_t own = kClaimed | slot_;
  if (claimed_) word_->compare_exchange_strong(own, 0);
}

bool ContextSize::claimant_gone(std::uint64_t word) const {
  const std::uint64_t slot = word & ~kClaimed;
  return slot >= kProcessesMax || slot == slot_ || ledger_->processes[slot].identity.load() == Pair{};
}

std::uint64_t ContextSize::learn_or_claim() {
  for (int polls = 0;; ++polls) {
    std::uint64_t word = word_->load();
    if (is_size(word)) return word;
    if (word == kUntold) return 0;
    const bool vacant = word == 0 || claimant_gone(word) || polls >= kPolls;
    if (vacant && word_->compare_exchange_strong(word, kClaimed | slot_)) {
      claimed_ = true;
      return 0;
    }
    ::usleep(kPollUs);
  }
}

void ContextSize::tell(std::uint64_t took) {
  std::uint64_t word = word_->load();
  while (!is_size(word) || took > word)
    if (word_->compare_exchange_weak(word, took == 0 ? kUntold : took)) return;
}

}  // namespace tranche::guard
