// SPDX-License-Identifier: Apache-2.0
#include "wire/amount_text.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace tranche::wire {
namespace {

// Of the exchange: portions of devices that somebody wanted or offered.
constexpr std::array<std::string_view, 10> kPortions{"immediate",
                                                     "fill_or_kill",
                                                     "length_min",
                                                     "quantity_min",
                                                     "self_trade",
                                                     "kinds",
                                                     "audience",
                                                     "calendar",
                                                     "contract",
                                                     "piece"};

// Split first: seconds * 1000 need not fit.
std::string hours_text(std::int64_t seconds) {
  return thousandths_text(seconds / 3600 * 1000 + (seconds % 3600 * 1000 + 1800) / 3600);
}

std::string counted(std::string number, std::string_view unit) {
  const bool one = number == "1";
  return std::move(number).append(" ").append(unit) + (one ? "" : "s");
}

// Exact where that is short; else no more than there is, in thousandths.
std::string size_text(std::int64_t bytes) {
  constexpr std::size_t kShort = 8;
  std::string exact = tranche::text(Bytes{bytes});
  return exact.size() <= kShort ? exact : thousandths_text(bytes / 1'000'000) + "GB";
}

bool says(std::string_view limit, std::string_view part) {
  return limit.find(part) != std::string_view::npos;
}

}  // namespace

std::string thousandths_text(std::int64_t value) {
  const bool negative = value < 0;
  const std::uint64_t size =
      negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string out = negative ? "-" : "";
  out += std::to_string(size / 1000);
  if (size % 1000 == 0) return out;
  std::string decimals = std::to_string(1000 + size % 1000).substr(1);
  while (decimals.back() == '0') decimals.pop_back();
  return out + '.' + decimals;
}

std::string amount_text(std::string_view limit, std::int64_t amount) {
  if (says(limit, "milli") || limit.starts_with("devices.") || limit.starts_with("rule '"))
    return counted(thousandths_text(amount), "GPU");
  if (says(limit, "bytes")) return size_text(amount);
  if (says(limit, "gpu_seconds")) return counted(hours_text(amount), "GPU-hour");
  if (limit == "per_job.time" || limit == "wall_time_max" || limit.starts_with("reservation_"))
    return tranche::text(Duration(std::chrono::seconds(amount)));
  if (says(limit, "spend") || limit == "credit" || limit == "collar" || limit == "overdraft")
    return tranche::text(Money{amount});
  if (says(limit, "percent")) return std::to_string(amount) + " %";
  if (limit == "jobs") return counted(std::to_string(amount), "job");
  if (std::find(kPortions.begin(), kPortions.end(), limit) != kPortions.end())
    return thousandths_text(amount);
  return std::to_string(amount);
}

}  // namespace tranche::wire
