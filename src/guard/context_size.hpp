// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much will a context take? Known once one was made, for the whole tenant. The first is made alone:
// others wait until it has told, or its process died, or for a while.
#include <cstdint>

#include "guard/region.hpp"

namespace tranche::guard {

// Around the making of one context by the process of `slot`.
class ContextSize {
 public:
  ContextSize(LedgerRegion& ledger, std::uint32_t device, std::uint32_t slot)
      : ledger_(&ledger), word_(&ledger.devices[device].context_bytes), slot_(slot) {}
  ~ContextSize();
  ContextSize(const ContextSize&) = delete;
  ContextSize& operator=(const ContextSize&) = delete;

  // Bytes to reserve; zero: nobody knows, and this one is to find out.
  std::uint64_t learn_or_claim();
  // What it took; zero: the device does not tell.
  void tell(std::uint64_t took);

 private:
  [[nodiscard]] bool claimant_gone(std::uint64_t word) const;

  LedgerRegion* ledger_;
  Word64* word_;
  std::uint32_t slot_;
  bool claimed_ = false;
};

}  // namespace tranche::guard
