// SPDX-License-Identifier: Apache-2.0
#include "wire/amounts.hpp"

#include <array>
#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/gpu_item_parser.hpp"
#include "wire/nearest.hpp"

namespace tranche::wire {
namespace {

using detail::parse_milli;

struct Ends {
  std::string_view least;
  std::string_view most;  // Empty: open.
  bool exact = false;
};
// 4 | 4+ | 4.. | 4..8
Ends ends_of(std::string_view text) {
  if (text.ends_with('+')) return {.least = text.substr(0, text.size() - 1), .most = {}, .exact = false};
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) return {.least = text, .most = {}, .exact = true};
  return {.least = text.substr(0, dots), .most = text.substr(dots + 2), .exact = false};
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number without a unit is in GB; more than a petabyte of it was meant as bytes, and wants to be said.
std::optional<Bytes> parse_memory_amount(std::string_view text) {
  const bool bare = !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
  const auto amount = parse_bytes(bare ? std::string(text) + "GB" : std::string(text));
  if (!amount || amount->count <= 0 || (bare && *amount > gigabytes(1'000'000))) return std::nullopt;
  return amount;
}

void append_milli(std::string& out, std::uint32_t milli) {
  out += std::to_string(milli / 1000);
  if (milli % 1000 == 0) return;
  std::string decimals = std::to_string(1000 + milli % 1000).substr(1);
  while (decimals.back() == '0') decimals.pop_back();
  out += "." + decimals;
}

struct NamedPriority {
  std::string_view name;
  std::uint8_t value = 0;
};
constexpr std::array<NamedPriority, 5> kPriorities{{
    {.name = "idle", .value = 0},
    {.name = "low", .value = 25},
    {.name = "normal", .value = 50},
    {.name = "high", .value = 75},
    {.name = "critical", .value = 100},
}};

}  // namespace

void TextForm<Share>::append(std::string& json, Share value) {
  json += "\"" + std::to_string(value.milli / 10);
  if (value.milli % 10 != 0) json += "." + std::to_string(value.milli % 10);
  json += "%\"";
}

Result<Share, std::string> TextForm<Share>::parse(std::string_view text) {
  const auto milli =
      text.ends_with('%') ? parse_milli(text.substr(0, text.size() - 1), 10) : parse_milli(text, 1000);
  if (milli && *milli > 0 && *milli <= 1000) return Share{static_cast<std::uint16_t>(*milli)};
  return refuse(std::string("must be a share of a device from 0.1% to 100%, such as 30% or 0.3"));
}

void TextForm<Priority>::append(std::string& json, Priority value) {
  json += std::to_string(value.value);
}

Result<Priority, std::string> TextForm<Priority>::parse(std::string_view text) {
  for (const NamedPriority& known : kPriorities) {
    if (equal_ignoring_case(known.name, text)) return Priority{known.value};
  }
  const auto value = parse_count(text);
  if (value && *value >= 0 && *value <= 100) return Priority{static_cast<std::uint8_t>(*value)};
  return refuse(std::string("must be 0..100, or one of idle, low, normal, high, critical"));
}

void TextForm<CpuRange>::append(std::string& json, CpuRange value) {
  json += '"';
  append_milli(json, value.milli_min);
  if (value.milli_max == 0) json += '+';
  if (value.milli_max > value.milli_min) {
    json += "..";
    append_milli(json, value.milli_max);
  }
  json += '"';
}

Result<CpuRange, std::string> TextForm<CpuRange>::parse(std::string_view text) {
  const Ends ends = ends_of(text);
  const auto least = parse_milli(ends.least, 1000);
  const auto most = ends.exact ? least : (ends.most.empty() ? 0U : parse_milli(ends.most, 1000));
  const bool fits = least && most && *least > 0 && (*most == 0 || *most >= *least);
  if (fits) return CpuRange{.milli_min = *least, .milli_max = *most};
  return refuse(std::string("must be a number of CPUs such as 4, 4+ or 4..8"));
}

void TextForm<MemoryBounds>::append(std::string& json, MemoryBounds value) {
  json += '"';
  append_text(json, value.min);
  if (value.max.count == 0) json += "..";
  if (value.max > value.min) {
    json += "..";
    append_text(json, value.max);
  }
  json += '"';
}

Result<MemoryBounds, std::string> TextForm<MemoryBounds>::parse(std::string_view text) {
  const Ends ends = ends_of(text);
  const auto least = parse_memory_amount(ends.least);
  const auto most = ends.exact ? least : (ends.most.empty() ? Bytes{0} : parse_memory_amount(ends.most));
  const bool fits = least && most && (most->count == 0 || *most >= *least);
  if (fits) return MemoryBounds{.min = *least, .max = *most};
  return refuse(std::string("must be memory such as 32GB, 32+ (GB) or 16GB..64GB"));
}

void TextForm<WorkerRange>::append(std::string& json, WorkerRange value) {
  json += '"' + std::to_string(value.min);
  if (value.max > value.min) json += ".." + std::to_string(value.max);
  json += '"';
}

Result<WorkerRange, std::string> TextForm<WorkerRange>::parse(std::string_view text) {
  const Ends ends = ends_of(text);
  const auto least = parse_count(ends.least);
  const auto most = ends.exact ? least : parse_count(ends.most);
  constexpr std::int64_t kMost = 100'000;
  if (least && most && *least >= 1 && *most >= *least && *most <= kMost)
    return WorkerRange{.min = static_cast<std::uint32_t>(*least), .max = static_cast<std::uint32_t>(*most)};
  return refuse(std::string("must be a number of workers such as 4, or bounds such as 2..8"));
}

void TextForm<UnitRange>::append(std::string& json, UnitRange value) {
  json += "\"" + std::to_string(value.first) + ".." + std::to_string(value.last) + "\"";
}

Result<UnitRange, std::string> TextForm<UnitRange>::parse(std::string_view text) {
  const Ends ends = ends_of(text);
  const auto least = ends.exact ? std::optional<std::int64_t>(1) : parse_count(ends.least);
  const auto most = parse_count(ends.exact ? ends.least : ends.most);
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // Counts stay exact in every client's numbers.
  const bool fits = least && most && *least >= 0 && *most >= *least && *most <= kMost;
  if (fits) return UnitRange{.first = *least, .last = *most};
  return refuse(std::string("must be a count such as 240, or a range such as 1..240"));
}

}  // namespace tranche::wire
