// SPDX-License-Identifier: Apache-2.0
#include "cli/human.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "net/http.hpp"
#include "wire/amount_text.hpp"

namespace tranche::cli {

std::string gpus_text(std::int64_t milli) {
  return wire::thousandths_text(milli);
}

std::string hours_text(std::int64_t seconds) {
  // Split first: seconds * 1000 need not fit.
  const std::int64_t hours = seconds / 3600;
  const std::int64_t rest = seconds % 3600;
  return wire::thousandths_text(hours * 1000 + (rest * 1000 + 1800) / 3600);
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  // One decimal, unless it would be a zero.
  const double tenths = std::round(value * 10) / 10;
  const bool whole = unit == 0 || value >= 99.95 || tenths == std::floor(tenths);
  std::snprintf(text.data(), text.size(), whole ? "%.0f%s" : "%.1f%s", value, kUnits.at(unit));
  return text.data();
}

std::string age_text(Duration age) {
  const auto seconds =
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(age).count());
  if (seconds < 120) return std::to_string(seconds) + 's';
  if (seconds < 120 * 60) return std::to_string(seconds / 60) + 'm';
  if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + 'h';
  return std::to_string(seconds / 86400) + 'd';
}

std::string local_time_text(Instant at) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return {};
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return {text.data(), size};
}

std::optional<std::int64_t> parse_whole(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_milli(std::string_view text) {
  const auto dot = text.find('.');
  const std::string_view whole_text = text.substr(0, dot);
  std::string decimals(dot == std::string_view::npos ? "" : text.substr(dot + 1));
  if (dot != std::string_view::npos && (decimals.empty() || decimals.size() > 3)) return std::nullopt;
  decimals.resize(3, '0');
  if (decimals.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const auto whole = parse_whole(whole_text);
  if (!whole || *whole > (std::int64_t{1} << 40)) return std::nullopt;
  return *whole * 1000 + *parse_whole(decimals);
}

std::string path_segment(std::string_view text) {
  return net::percent_encode(text);
}

std::string shell_quoted(std::string_view word) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) { c == '\'' ? static_cast<void>(out += "'\\''") : static_cast<void>(out += c); }
  return out + '\'';
}

}  // namespace tranche::cli
