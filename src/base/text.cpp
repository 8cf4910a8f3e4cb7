// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace tranche {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr std::int64_t kMicrosPerSecond = 1'000'000;
constexpr std::int64_t kSecondsPerDay = 86'400;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_padded(std::string& out, std::int64_t value, std::size_t width) {
  std::array<char, 20> digits{};  // Filled from its end, so that one append takes them.
  std::size_t first = digits.size();
  for (; value != 0 || digits.size() - first < width; value /= 10) {
    digits[--first] = static_cast<char>('0' + value % 10);
  }
  out.append(digits.data() + first, digits.size() - first);
}

void append_integer(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

// The magnitude of any int64, including the one that cannot be negated.
constexpr std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

// Takes what a reader expects off the front of a text, or says that it is not there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}
  [[nodiscard]] bool done() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  bool take(char expected) {
    if (rest_.empty() || rest_.front() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<int> digits(std::size_t count) {
    if (rest_.size() < count ||
        !std::all_of(rest_.begin(), rest_.begin() + static_cast<long>(count), is_digit)) {
      return std::nullopt;
    }
    int value = 0;
    for (const char c : rest_.substr(0, count)) value = value * 10 + (c - '0');
    rest_.remove_prefix(count);
    return value;
  }
  std::string_view take_digits() {
    std::size_t count = 0;
    while (count < rest_.size() && is_digit(rest_[count])) ++count;
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view take_letters() {
    std::size_t count = 0;
    while (count < rest_.size() && !is_digit(rest_[count]) && rest_[count] != ' ') ++count;
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

 private:
  std::string_view rest_;
};

// whole.fraction scaled by `scale`; nullopt unless the result is a whole number that fits.
std::optional<std::int64_t> scaled(std::string_view whole, std::string_view fraction, std::int64_t scale) {
  if (whole.empty() || whole.size() > 19 || fraction.size() > 18) return std::nullopt;
  Int128 value = 0;
  for (const char c : whole) value = value * 10 + (c - '0');
  value *= scale;
  Int128 numerator = 0;
  Int128 denominator = 1;
  for (const char c : fraction) {
    numerator = numerator * 10 + (c - '0');
    denominator *= 10;
  }
  if (numerator * scale % denominator != 0) return std::nullopt;
  value += numerator * scale / denominator;
  if (value > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

struct Decimal {
  std::string_view whole;
  std::string_view fraction;
};

std::optional<Decimal> take_decimal(Scanner& scanner) {
  Decimal decimal{.whole = scanner.take_digits(), .fraction = {}};
  if (decimal.whole.empty()) return std::nullopt;
  if (scanner.take('.')) {
    decimal.fraction = scanner.take_digits();
    if (decimal.fraction.empty()) return std::nullopt;
  }
  return decimal;
}

struct Unit {
  std::string_view name;
  std::int64_t scale;
};

constexpr std::array kDurationUnits{Unit{"w", kMicrosPerSecond * 7 * 86'400},
                                    Unit{"d", 86'400 * kMicrosPerSecond},
                                    Unit{"h", 3600 * kMicrosPerSecond},
                                    Unit{"m", 60 * kMicrosPerSecond},
                                    Unit{"min", 60 * kMicrosPerSecond},
                                    Unit{"s", kMicrosPerSecond},
                                    Unit{"ms", 1000},
                                    Unit{"us", 1}};

constexpr std::array kByteUnits{Unit{"pb", 1'000'000'000'000'000},
                                Unit{"pib", std::int64_t{1} << 50},
                                Unit{"tb", 1'000'000'000'000},
                                Unit{"tib", std::int64_t{1} << 40},
                                Unit{"gb", 1'000'000'000},
                                Unit{"gib", std::int64_t{1} << 30},
                                Unit{"mb", 1'000'000},
                                Unit{"mib", std::int64_t{1} << 20},
                                Unit{"kb", 1000},
                                Unit{"kib", 1024},
                                Unit{"b", 1}};

// "T20:09:55.123Z" after the date, as microseconds to add to its midnight in UTC.
std::optional<std::int64_t> parse_time_of_day(Scanner& scanner) {
  const auto hour = scanner.digits(2);
  if (!hour || *hour > 23 || !scanner.take(':')) return std::nullopt;
  const auto minute = scanner.digits(2);
  if (!minute || *minute > 59 || !scanner.take(':')) return std::nullopt;
  const auto second = scanner.digits(2);
  if (!second || *second > 59) return std::nullopt;
  std::int64_t micros = 0;
  if (scanner.take('.')) {
    const auto fraction = scanner.take_digits();
    if (fraction.empty()) return std::nullopt;
    for (std::size_t i = 0; i < 6; ++i) micros = micros * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  }
  return (*hour * 3600 + *minute * 60 + *second) * kMicrosPerSecond + micros;
}

std::optional<std::int64_t> parse_offset(Scanner& scanner) {
  if (scanner.take('Z') || scanner.take('z')) return 0;
  const bool west = scanner.take('-');
  if (!west && !scanner.take('+')) return std::nullopt;
  const auto hour = scanner.digits(2);
  if (!hour || *hour > 23 || !scanner.take(':')) return std::nullopt;
  const auto minute = scanner.digits(2);
  if (!minute || *minute > 59) return std::nullopt;
  return kMicrosPerSecond * (west ? -1 : 1) * (*hour * 3600 + *minute * 60);
}

}  // namespace

void append_text(std::string& out, Instant at) {
  constexpr Instant kFirst = sys_days{std::chrono::year(0) / 1 / 1};
  constexpr Instant kLast = sys_days{std::chrono::year(10'000) / 1 / 1} - Duration(1);
  at = std::clamp(at, kFirst, kLast);
  const auto day = std::chrono::floor<days>(at);
  const year_month_day date{day};
  const std::int64_t micros = (at - day).count();
  const std::int64_t seconds = micros / kMicrosPerSecond;
  append_padded(out, int(date.year()), 4);
  out += '-';
  append_padded(out, unsigned(date.month()), 2);
  out += '-';
  append_padded(out, unsigned(date.day()), 2);
  out += 'T';
  append_padded(out, seconds / 3600, 2);
  out += ':';
  append_padded(out, seconds / 60 % 60, 2);
  out += ':';
  append_padded(out, seconds % 60, 2);
  if (const std::int64_t fraction = micros % kMicrosPerSecond; fraction != 0) {
    out += '.';
    append_padded(out, fraction, 6);
    while (out.back() == '0') out.pop_back();
  }
  out += 'Z';
}

std::optional<Instant> parse_instant(std::string_view text) {
  Scanner scanner(text);
  const auto year = scanner.digits(4);
  if (!year || !scanner.take('-')) return std::nullopt;
  const auto month = scanner.digits(2);
  if (!month || !scanner.take('-')) return std::nullopt;
  const auto day = scanner.digits(2);
  if (!day || (!scanner.take('T') && !scanner.take('t') && !scanner.take(' '))) return std::nullopt;
  const year_month_day date{std::chrono::year(*year),
                            std::chrono::month(static_cast<unsigned>(*month)),
                            std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const auto time = parse_time_of_day(scanner);
  if (!time) return std::nullopt;
  const auto offset = parse_offset(scanner);
  if (!offset || !scanner.done()) return std::nullopt;
  return Instant(sys_days{date}) + Duration(*time - *offset);
}

void append_text(std::string& out, Duration length) {
  if (length.count() == 0) {
    out += "0s";
    return;
  }
  if (length.count() < 0) out += '-';
  std::uint64_t rest = magnitude(length.count());
  for (const std::string_view name : {"h", "m", "s", "ms", "us"}) {
    const auto unit = std::find_if(
        kDurationUnits.begin(), kDurationUnits.end(), [&](const Unit& known) { return known.name == name; });
    const auto scale = static_cast<std::uint64_t>(unit->scale);
    if (rest < scale) continue;
    append_integer(out, rest / scale);
    out += name;
    rest %= scale;
  }
}

std::optional<Duration> parse_duration(std::string_view text) {
  Scanner scanner(text);
  const bool negative = scanner.take('-');
  std::int64_t total = 0;
  bool any = false;
  while (!scanner.done()) {
    const auto number = take_decimal(scanner);
    if (!number) return std::nullopt;
    const auto name = scanner.take_letters();
    if (name.empty() && any) return std::nullopt;  // "1h30": thirty of what?
    const auto unit = std::find_if(kDurationUnits.begin(), kDurationUnits.end(), [&](const Unit& known) {
      return known.name == (name.empty() ? "s" : name);
    });
    if (unit == kDurationUnits.end()) return std::nullopt;
    const auto part = scaled(number->whole, number->fraction, unit->scale);
    if (!part || __builtin_add_overflow(total, *part, &total)) return std::nullopt;
    any = true;
  }
  if (!any) return std::nullopt;
  return Duration(negative ? -total : total);
}

void append_text(std::string& out, Money amount) {
  const std::uint64_t micros = magnitude(amount.micros);
  if (amount.micros < 0) out += '-';
  append_integer(out, micros / 1'000'000);
  out += '.';
  const std::size_t decimals = out.size();
  append_padded(out, static_cast<std::int64_t>(micros % 1'000'000), 6);
  while (out.back() == '0' && out.size() > decimals + 2) out.pop_back();
}

std::optional<Money> parse_money(std::string_view text) {
  Scanner scanner(text);
  const bool negative = scanner.take('-');
  const auto number = take_decimal(scanner);
  if (!number || !scanner.done()) return std::nullopt;
  const auto micros = scaled(number->whole, number->fraction, 1'000'000);
  if (!micros) return std::nullopt;
  return Money{negative ? -*micros : *micros};
}

void append_text(std::string& out, Bytes size) {
  static constexpr std::array<Unit, 9> kWritten{Unit{"TB", 1'000'000'000'000},
                                                Unit{"TiB", std::int64_t{1} << 40},
                                                Unit{"GB", 1'000'000'000},
                                                Unit{"GiB", std::int64_t{1} << 30},
                                                Unit{"MB", 1'000'000},
                                                Unit{"MiB", std::int64_t{1} << 20},
                                                Unit{"kB", 1000},
                                                Unit{"KiB", 1024},
                                                Unit{"B", 1}};
  for (const Unit& unit : kWritten) {
    if (size.count % unit.scale != 0 || (size.count == 0 && unit.scale != 1)) continue;
    if (size.count < 0) out += '-';
    append_integer(out, magnitude(size.count / unit.scale));
    out += unit.name;
    return;
  }
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  Scanner scanner(text);
  const bool negative = scanner.take('-');
  const auto number = take_decimal(scanner);
  if (!number) return std::nullopt;
  while (scanner.take(' ')) {}
  std::string name(scanner.take_letters());
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (name.empty()) name = "b";
  const auto unit = std::find_if(
      kByteUnits.begin(), kByteUnits.end(), [&](const Unit& known) { return known.name == name; });
  if (unit == kByteUnits.end() || !scanner.done()) return std::nullopt;
  const auto count = scaled(number->whole, number->fraction, unit->scale);
  if (!count) return std::nullopt;
  return Bytes{negative ? -*count : *count};
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

}  // namespace tranche
