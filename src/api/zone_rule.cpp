// SPDX-License-Identifier: Apache-2.0
#include "api/zone_rule.hpp"

#include <algorithm>

namespace tranche::api {
namespace {

using std::chrono::seconds;

class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}
  [[nodiscard]] bool done() const { return left_.empty(); }
  [[nodiscard]] bool next_is(char c) const { return !left_.empty() && left_.front() == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    left_.remove_prefix(1);
    return true;
  }

  bool name() {
    std::size_t length = 0;
    if (next_is('<')) {
      length = left_.find('>') + 1;
      if (length == 0) return false;
    } else {
      const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
      while (length < left_.size() && is_letter(left_[length])) ++length;
    }
    left_.remove_prefix(length);
    return length >= 3;
  }

  std::optional<int> number() {
    int value = 0;
    std::size_t length = 0;
    while (length < left_.size() && length < 4 && left_[length] >= '0' && left_[length] <= '9')
      value = value * 10 + (left_[length++] - '0');
    if (length == 0) return std::nullopt;
    left_.remove_prefix(length);
    return value;
  }

  std::optional<seconds> time() {  // [+-]hh[:mm[:ss]]
    const int sign = take('-') ? -1 : 1;
    if (sign > 0) take('+');
    const auto hours = number();
    if (!hours) return std::nullopt;
    int total = *hours * 3600;
    for (int unit = 60; unit > 0 && take(':'); unit /= 60) {
      const auto part = number();
      if (!part) return std::nullopt;
      total += *part * unit;
    }
    return seconds(sign * total);
  }

  std::optional<YearlyDate> date() {
    YearlyDate date;
    std::optional<int> first;
    if (take('M')) {
      first = number();
      const auto week = take('.') ? number() : std::nullopt;
      const auto weekday = take('.') ? number() : std::nullopt;
      if (!first || !week || !weekday || *first < 1 || *first > 12 || *week < 1 || *week > 5 || *weekday > 6)
        return std::nullopt;
      date.month = *first;
      date.week = *week;
      date.weekday = *weekday;
    } else {
      date.form = take('J') ? YearlyDate::Form::kJulian : YearlyDate::Form::kDayOfYear;
      first = number();
      if (!first || *first > 365) return std::nullopt;
      date.day = *first;
    }
    if (!take('/')) return date;
    const auto at = time();
    if (!at) return std::nullopt;
    date.time = *at;
    return date;
  }

 private:
  std::string_view left_;
};

}  // namespace

std::chrono::sys_seconds YearlyDate::in(std::chrono::year year) const {
  using namespace std::chrono;
  sys_days date;
  if (form == Form::kMonthWeekDay) {
    const auto in_month = year / std::chrono::month(static_cast<unsigned>(month));
    const std::chrono::weekday wanted(static_cast<unsigned>(weekday));
    date = week == 5 ? sys_days(in_month / wanted[last])
                     : sys_days(in_month / wanted[static_cast<unsigned>(week)]);
  } else {
    const bool skips = form == Form::kJulian && year.is_leap() && day >= 60;
    const int from_zero = form == Form::kJulian ? day - 1 + (skips ? 1 : 0) : day;
    date = sys_days(year / January / 1) + days(from_zero);
  }
  return sys_seconds(date) + time;
}

std::pair<ZoneRule::Change, ZoneRule::Change> ZoneRule::changes_in(std::chrono::year year) const {
  const Change begins{summer_begins.in(year)-standard, summer};
  const Change ends{summer_ends.in(year)-summer, standard};
  return begins < ends ? std::pair{begins, ends} : std::pair{ends, begins};
}

std::optional<ZoneRule> parse_zone_rule(std::string_view text) {
  Reader reader(text);
  ZoneRule rule;
  if (!reader.name()) return std::nullopt;
  const auto offset = reader.time();
  if (!offset) return std::nullopt;
  rule.standard = -*offset;  // POSIX counts westwards.
  rule.summer = rule.standard + std::chrono::hours(1);
  if (reader.done()) return rule;
  if (!reader.name()) return std::nullopt;
  if (!reader.next_is(',')) {
    const auto summer = reader.time();
    if (!summer) return std::nullopt;
    rule.summer = -*summer;
  }
  const auto begins = reader.take(',') ? reader.date() : std::nullopt;
  const auto ends = reader.take(',') ? reader.date() : std::nullopt;
  if (!begins || !ends || !reader.done()) return std::nullopt;
  rule.changes = true;
  rule.summer_begins = *begins;
  rule.summer_ends = *ends;
  return rule;
}

}  // namespace tranche::api
