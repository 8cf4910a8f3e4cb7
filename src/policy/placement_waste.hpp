// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much of a node's idle compute will be stranded? The terminal waste of a state: offer it streams of jobs
// drawn from the mix until the stream ends, and average what is left idle. And how much is out of reach now:
// the idle compute that the next job could not use, on average over the mix.
#include <cstdint>
#include <vector>

#include "policy/placement_lean.hpp"

namespace tranche::policy {

struct WasteOptions {
  int streams = 16;
  int length = 30;
  bool reach = false;  // Whether what is out of reach is asked for, too.
};

struct WeightedForm {
  LeanForm form;
  double weight = 0;
};

// Both in thousandths of a device.
struct Idle {
  float stranded = 0;
  float out_of_reach = 0;
};

class TerminalWaste {
 public:
  TerminalWaste() = default;
  // Forms that may come to this type of node, with their frequencies among all arrivals; any order,
  // deterministic.
  TerminalWaste(std::vector<WeightedForm> mix, const WasteOptions& options, std::uint64_t seed);

  [[nodiscard]] Idle of(const LeanNode& node);
  [[nodiscard]] std::uint64_t evaluations() const { return evaluations_; }

 private:
  [[nodiscard]] double simulate(const LeanNode& node) const;
  [[nodiscard]] double out_of_reach(const LeanNode& node) const;

  struct Slot {
    std::uint64_t key = 0;
    Idle idle;
  };
  std::vector<WeightedForm> mix_;
  std::vector<LeanForm> steps_;  // Stream after stream.
  int streams_ = 0;
  int length_ = 0;
  std::int32_t least_cpu_ = 0;
  std::int32_t least_milli_ = 0;
  std::vector<Slot> memo_;  // Open addressing; a power of two; emptied when it would grow past its bound.
  std::size_t used_ = 0;
  std::uint64_t evaluations_ = 0;
};

}  // namespace tranche::policy
