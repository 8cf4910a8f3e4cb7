// SPDX-License-Identifier: Apache-2.0
#pragma once
// How instants, durations, money and sizes are written for people and read back. One form out, several in.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/money.hpp"
#include "base/time.hpp"

namespace tranche {

// 2026-11-15T20:09:55Z, with up to six decimals where there are microseconds. Years outside 0000..9999, which
// RFC 3339 cannot write, come out as the nearest instant that it can.
void append_text(std::string& out, Instant at);
std::optional<Instant> parse_instant(std::string_view text);  // Also with an offset: 21:09:55+01:00.

// 1h30m, 90s -> 1m30s, 250ms. Hours are the largest unit written: a day is not always 24 hours to a person.
void append_text(std::string& out, Duration length);
std::optional<Duration> parse_duration(std::string_view text);  // w d h m s ms us; bare digits are seconds.

// 1.25, 1.00, 0.000001: at least two decimals, at most six.
void append_text(std::string& out, Money amount);
std::optional<Money> parse_money(std::string_view text);

// 20GB, 512MiB, 17 bytes as 17B: the largest unit that divides, decimal before binary.
void append_text(std::string& out, Bytes size);
std::optional<Bytes> parse_bytes(std::string_view text);  // B, kB..PB, KiB..PiB, any case; decimals if exact.

// Every occurrence of `what`, which is not empty.
std::string replaced(std::string text, std::string_view what, std::string_view with);

template <class T>
  requires requires(std::string& out, T value) { append_text(out, value); }
std::string text(T value) {
  std::string out;
  append_text(out, value);
  return out;
}

}  // namespace tranche
