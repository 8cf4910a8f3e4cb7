// SPDX-License-Identifier: Apache-2.0
#include "wire/progress.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace tranche::wire {
namespace {

constexpr std::string_view kMark = "tranche: ";
constexpr std::size_t kLineMax = 512;
constexpr std::size_t kMetricsMax = 200;
constexpr std::size_t kNameMax = 200;
constexpr std::int64_t kCountMax = std::int64_t{1} << 53;

constexpr std::array<std::pair<std::string_view, WorkUnit>, 6> kUnits{{{"unit", WorkUnit::kUnit},
                                                                       {"frame", WorkUnit::kFrame},
                                                                       {"second", WorkUnit::kSecond},
                                                                       {"step", WorkUnit::kStep},
                                                                       {"request", WorkUnit::kRequest},
                                                                       {"token", WorkUnit::kToken}}};

std::string_view next_word(std::string_view& rest) {
  const std::size_t from = rest.find_first_not_of(" \t");
  if (from == std::string_view::npos) return rest = {};
  const std::size_t end = std::min(rest.find_first_of(" \t", from), rest.size());
  const std::string_view word = rest.substr(from, end - from);
  rest.remove_prefix(end);
  return word;
}

WorkUnit unit_of(std::string_view word) {
  if (word.size() > 1 && word.ends_with('s')) word.remove_suffix(1);
  for (const auto& [name, unit] : kUnits)
    if (name == word) return unit;
  return WorkUnit::kNone;
}

std::optional<std::int64_t> count(std::string_view word) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == word.data() + word.size();
  if (!whole || value < 0 || value > kCountMax) return std::nullopt;
  return value;
}

bool is_metric(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 && equals + 1 < word.size() &&
         std::all_of(
             word.begin(), word.end(), [](char c) { return c > ' ' && c < 0x7F && c != '"' && c != '\\'; });
}

std::optional<ProgressLine> verdict_line(bool good, std::string_view rest) {
  ProgressLine line;
  line.unit = unit_of(next_word(rest));
  const auto number = count(next_word(rest));
  if (line.unit == WorkUnit::kNone || !number) return std::nullopt;
  UnitVerdict verdict{.unit = *number, .good = good};
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    if (word.starts_with("code="))
      verdict.exit_code = static_cast<std::int32_t>(count(word.substr(5)).value_or(0));
    if (word.starts_with("ms="))
      verdict.microseconds = std::min(count(word.substr(3)).value_or(0), kCountMax / 1000) * 1000;
  }
  line.verdict = verdict;
  return line;
}

// A file or folder in the checkpoint folder, and nothing that leads out of it.
std::optional<ProgressLine> checkpoint_line(std::string_view rest) {
  ProgressLine line;
  const std::string_view name = next_word(rest);
  const bool is_inside = !name.empty() && name.size() <= kNameMax && name.front() != '/' &&
                         name.back() != '/' && name.find("//") == std::string_view::npos &&
                         std::all_of(name.begin(), name.end(), [](char c) {
                           return c > ' ' && c < 0x7F && c != '"' && c != '\\';
                         });
  if (!is_inside || !next_word(rest).empty()) return std::nullopt;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part == "." || part == "..") return std::nullopt;
    at = end + 1;
  }
  line.checkpoint = name;
  return line;
}

}  // namespace

std::optional<ProgressLine> parse_progress_line(std::string_view text) {
  if (text.size() > kLineMax || !text.starts_with(kMark)) return std::nullopt;
  std::string_view rest = text.substr(kMark.size());
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  const std::string_view first = next_word(rest);
  if (first == "done" || first == "failed") return verdict_line(first == "done", rest);
  if (first == "checkpoint") return checkpoint_line(rest);
  ProgressLine line;
  line.unit = unit_of(first);
  if (line.unit == WorkUnit::kNone) return std::nullopt;
  std::string_view amount = next_word(rest);
  const std::size_t stroke = amount.find('/');
  const auto done = count(amount.substr(0, stroke));
  const auto total =
      stroke == std::string_view::npos ? std::optional<std::int64_t>(0) : count(amount.substr(stroke + 1));
  if (!done || !total) return std::nullopt;
  line.done = *done;
  line.total = *total;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    if (!is_metric(word) || line.metrics.size() + word.size() >= kMetricsMax) continue;
    if (!line.metrics.empty()) line.metrics += ' ';
    line.metrics += word;
  }
  return line;
}

std::int64_t count_of(const UnitSet& set) {
  std::int64_t sum = 0;
  for (const UnitRange& range : set) sum += range.count();
  return sum;
}

bool contains(const UnitSet& set, std::int64_t unit) {
  return std::any_of(set.begin(), set.end(), [&](const UnitRange& range) {
    return unit >= range.first && unit <= range.last;
  });
}

void add_unit(UnitSet& set, std::int64_t unit) {
  if (contains(set, unit)) return;
  auto at = std::find_if(set.begin(), set.end(), [&](const UnitRange& range) { return range.first > unit; });
  at = set.insert(at, UnitRange{.first = unit, .last = unit});
  if (at != set.begin() && std::prev(at)->last + 1 == unit) {
    std::prev(at)->last = unit;
    at = std::prev(set.erase(at));
  }
  if (const auto next = std::next(at); next != set.end() && at->last + 1 == next->first) {
    at->last = next->last;
    set.erase(next);
  }
}

bool remove_unit(UnitSet& set, std::int64_t unit) {
  for (auto at = set.begin(); at != set.end(); ++at) {
    if (unit < at->first || unit > at->last) continue;
    const UnitRange whole = *at;
    at = set.erase(at);
    if (unit < whole.last) at = set.insert(at, UnitRange{.first = unit + 1, .last = whole.last});
    if (unit > whole.first) set.insert(at, UnitRange{.first = whole.first, .last = unit - 1});
    return true;
  }
  return false;
}

std::string text(const UnitSet& set) {
  std::string out;
  for (const UnitRange& range : set) {
    if (!out.empty()) out += ", ";
    out += std::to_string(range.first);
    if (range.last > range.first) out += '-' + std::to_string(range.last);
  }
  return out;
}

std::string command_for(std::string_view command, std::string_view unit_name, std::int64_t unit) {
  std::string out;
  const std::string opening = "{" + std::string(unit_name);
  for (std::size_t at = 0; at < command.size();) {
    const std::size_t found = command.find(opening, at);
    if (found == std::string_view::npos) return out.append(command.substr(at));
    out.append(command.substr(at, found - at));
    std::size_t end = found + opening.size();
    std::size_t width = 0;
    if (end < command.size() && command[end] == ':') {
      for (++end; end < command.size() && command[end] >= '0' && command[end] <= '9'; ++end)
        width = std::min<std::size_t>(width * 10 + static_cast<std::size_t>(command[end] - '0'), 20);
    }
    const bool is_variable = found > 0 && command[found - 1] == '$';
    if (is_variable || end >= command.size() || command[end] != '}') {  // Somebody else's braces.
      out.append(command.substr(found, opening.size()));
      at = found + opening.size();
      continue;
    }
    const std::string digits = std::to_string(unit);
    if (digits.size() < width) out.append(width - digits.size(), '0');
    out += digits;
    at = end + 1;
  }
  return out;
}

}  // namespace tranche::wire
