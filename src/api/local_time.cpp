// SPDX-License-Identifier: Apache-2.0
// Times as people write them.
#include <array>
#include <charconv>

#include "api/recurrence.hpp"
#include "base/text.hpp"

namespace tranche::api {
namespace {

using std::chrono::days;
using std::chrono::local_days;

std::string lower_case(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + count, value);
  if (error != std::errc{} || end != text.data() + at + count || text[at] == '-') return std::nullopt;
  return value;
}

// "09:00", "9:00", "09:00:30"
std::optional<std::chrono::seconds> time_of_day(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon > 2) return std::nullopt;
  const auto hours = digits(text, 0, colon);
  const auto minutes = digits(text, colon + 1, 2);
  std::optional<int> seconds = 0;
  if (text.size() == colon + 6 && text[colon + 3] == ':') {
    seconds = digits(text, colon + 4, 2);
  } else if (text.size() != colon + 3) {
    return std::nullopt;
  }
  if (!hours || !minutes || !seconds || *hours > 23 || *minutes > 59 || *seconds > 59) return std::nullopt;
  return std::chrono::hours(*hours) + std::chrono::minutes(*minutes) + std::chrono::seconds(*seconds);
}

std::optional<local_days> date_of(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  if (!year || !month || !day || *year < 2020 || *year > 2098) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return local_days(date);
}

std::optional<std::chrono::weekday> weekday_of(std::string_view text) {
  constexpr std::array<std::string_view, 7> kNames{
      "sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"};
  for (unsigned i = 0; i < kNames.size(); ++i)
    if (text.size() >= 3 && kNames[i].starts_with(text)) return std::chrono::weekday(i);
  return std::nullopt;
}

}  // namespace

Result<When, std::string> read_time(std::string_view given, const Zone& zone, Instant now) {
  const auto bad = [&] {
    return refuse("'" + std::string(given) +
                  "' is no time; write 2026-11-20 14:00, tomorrow 09:00, mon 09:00, 14:00, in 2h or now");
  };
  const std::string text = lower_case(given);
  const auto exactly = [&](Instant at) { return When{zone.local(at), at}; };
  if (text == "now") return exactly(now);
  if (text.starts_with("in ")) {
    const auto wait = parse_duration(std::string_view(text).substr(3));
    if (!wait || *wait < Duration{}) return bad();
    return exactly(now + *wait);
  }
  if (const auto at = parse_instant(given)) return exactly(*at);
  const LocalTime here = zone.local(now);
  const auto today = std::chrono::floor<days>(here);
  if (const auto time = time_of_day(text))
    return When{today + *time > here ? today + *time : today + days(1) + *time, {}};
  // After a date, the T of ISO 8601 does as well.
  const bool dated = text.size() > 10 && text[4] == '-' && text[10] == 't';
  const std::size_t space = dated ? 10 : text.find(' ');
  if (space == std::string::npos) return bad();
  const std::string_view day = std::string_view(text).substr(0, space);
  const auto time = time_of_day(std::string_view(text).substr(space + 1));
  if (!time) return bad();
  if (day == "today") return When{today + *time, {}};
  if (day == "tomorrow") return When{today + days(1) + *time, {}};
  if (const auto date = date_of(day)) return When{*date + *time, {}};
  if (const auto wanted = weekday_of(day)) {
    const auto ahead = *wanted - std::chrono::weekday(today);  // 0 to 6 days.
    const LocalTime next = today + ahead + *time;
    return When{next > here ? next : next + days(7), {}};
  }
  return bad();
}

}  // namespace tranche::api
