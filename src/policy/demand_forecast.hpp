// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much will be asked for in the hours to come: what was asked for in the same hour of earlier weeks,
// newer weeks counting more; in the first week, in the same hour of earlier days.
//
// A sum over what was observed: the order of observations does not matter, so a restart learns the same
// again.
#include <cstdint>
#include <map>
#include <optional>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

class DemandForecast {
 public:
  static constexpr Seconds kHour = 3600;

  // Work of so much compute that was asked for at `from` and lasted until `until`.
  void observe(Seconds from, Seconds until, std::int64_t milli);
  // Compute expected to be in use during the hour that starts then, on average; nothing: no such hour was
  // seen.
  [[nodiscard]] std::optional<std::int64_t> expect(Seconds hour_start) const;

 private:
  [[nodiscard]] bool seen(Seconds hour) const { return !hours_.empty() && hour >= first_ && hour <= last_; }
  [[nodiscard]] std::int64_t level(Seconds hour) const;

  std::map<Seconds, std::int64_t> hours_;  // Number of the hour -> milli-seconds of compute asked for.
  Seconds first_ = 0;                      // Hours from here to there were watched, those without work too.
  Seconds last_ = 0;
};

}  // namespace tranche::policy
