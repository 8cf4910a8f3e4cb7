// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether work may start now without taking what is expected to be wanted by work that goes first. Of one
// pass.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/layout_plan.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

class Preparation {
 public:
  Preparation(const State& state, Instant now) : state_(state), now_(now) {}
  [[nodiscard]] bool on() const { return state_.settings.prepare_percent > 0; }
  [[nodiscard]] bool leaves_room(const Job&);
  void started(const Job&);
  [[nodiscard]] Instant look_again() const;  // The next hour is judged anew.
  // Devices, and slots of them, that are to be cut for work that goes first and is expected while the job
  // would be there.
  void append_kept(const Job&, const policy::Shape&, std::vector<Barred>&);
  [[nodiscard]] bool has_kept() const { return layouts_ && !layouts_->empty(); }

 private:
  static constexpr std::size_t kHours = 24;
  using Milli = std::array<std::int64_t, kHours>;
  struct Outlook {
    Milli room{};          // For work of the priority and below, that would still be there.
    bool crowded = false;  // So much waits that what is held back now could not be made up for in a day.
  };
  [[nodiscard]] Outlook& outlook(std::uint8_t priority);
  [[nodiscard]] Milli room_below(std::uint8_t priority) const;
  [[nodiscard]] bool is_crowded(std::uint8_t priority, const Milli& room) const;
  [[nodiscard]] Duration usual_stay(const Job&) const;  // Zero: nothing bounds it.
  [[nodiscard]] Instant stays_until(const Job&, Instant since) const;
  [[nodiscard]] std::size_t hours_until(Instant until) const;
  void take(Milli& room, std::int64_t milli, Instant until) const;

  const State& state_;
  Instant now_;
  std::map<std::uint8_t, Outlook> by_priority_;
  std::optional<std::vector<PlannedPartition>> layouts_;
};

}  // namespace tranche::engine
