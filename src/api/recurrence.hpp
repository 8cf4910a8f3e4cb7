// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what a person wrote ("every weekday at nine, for three hours, in Madrid") to instants.
#include <string>
#include <string_view>
#include <vector>

#include "api/zones.hpp"
#include "base/result.hpp"
#include "wire/codec.hpp"

namespace tranche::api {

struct LocalWindow {
  LocalTime from{};
  Duration length{};
};

struct Repeat {
  std::string rule{};  // RFC 5545, without "RRULE:"; empty: once.
  bool open_ended = false;
};

// "day", "weekday", "weekend", "week", "month", "mon,wed,fri" or an RRULE; `times` and `until` (a local date
// or time) end it. The error is a sentence for a person.
[[nodiscard]] Result<Repeat, std::string> read_repeat(std::string_view every,
                                                      std::uint32_t times,
                                                      std::string_view until);

// The local times of a rule from `from` on, which counts as its first day: at most so many, and none further
// ahead.
[[nodiscard]] Result<std::vector<LocalTime>, std::string> occurrences(
    const Zone&, LocalTime from, const Repeat&, std::size_t most, std::chrono::seconds ahead);

struct Span {
  Instant from{};
  Instant to{};
  bool operator==(const Span&) const = default;
};

// Each window once, in order. They open and close at the local times written: on the night of a change of
// clocks a window may be an hour shorter or longer. At most `most`, none that begins a year after the first.
[[nodiscard]] Result<std::vector<Span>, std::string> expand(const Zone&,
                                                            const LocalWindow&,
                                                            const Repeat&,
                                                            std::size_t most);

// "weekdays 22:00" in a zone: days and a time of day, as one writes it for what happens again and again.
struct Every {
  std::string days_and_time{};
  std::string zone{};  // IANA.
  std::uint32_t times = 0;
  std::string until{};
  Duration length = std::chrono::minutes(1);
};
struct EveryRule {
  std::shared_ptr<const Zone> zone{};
  LocalTime from{};
  Repeat repeat{};
};
[[nodiscard]] Result<EveryRule, wire::Problem> read_every(const Every&, Instant now);
// Those that begin after `now`, at most 1000; without an end, those of a year.
[[nodiscard]] Result<std::vector<Span>, wire::Problem> spans_of(const Every&, Instant now);

struct When {
  LocalTime local{};
  std::optional<Instant> exact{};  // "in 2h", or with an offset: no question of clocks.
};
// "2026-11-20 14:00", "tomorrow 09:00", "mon 09:00", "14:00", "in 2h", "now", RFC 3339 with an offset.
[[nodiscard]] Result<When, std::string> read_time(std::string_view text, const Zone&, Instant now);

}  // namespace tranche::api
