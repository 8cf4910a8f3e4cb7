// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small values that people write as text in a job file: a share, a priority, ranges of CPUs, memory and
// units.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "wire/fields.hpp"

namespace tranche::wire {

// A share of a device's compute: 30%, 0.3.
struct Share {
  std::uint16_t milli = 0;
  auto operator<=>(const Share&) const = default;
};
BOOST_DESCRIBE_STRUCT(Share, (), (milli))

// 0..100, or a class: idle 0, low 25, normal 50, high 75, critical 100.
struct Priority {
  std::uint8_t value = 50;
  auto operator<=>(const Priority&) const = default;
};
BOOST_DESCRIBE_STRUCT(Priority, (), (value))

// 4, 4+, 4.. or 4..8 CPUs; halves are possible.
struct CpuRange {
  std::uint32_t milli_min = 0;  // Zero: whatever there is.
  std::uint32_t milli_max = 0;  // Zero: no upper bound.
  bool operator==(const CpuRange&) const = default;
};
BOOST_DESCRIBE_STRUCT(CpuRange, (), (milli_min, milli_max))

// 32GB, 32+, 32GB.. or 16GB..64GB of memory. A bare number is GB, as SkyPilot has it.
struct MemoryBounds {
  Bytes min{};
  Bytes max{};  // Zero: no upper bound.
  bool operator==(const MemoryBounds&) const = default;
};
BOOST_DESCRIBE_STRUCT(MemoryBounds, (), (min, max))

// What a workload counts its progress in: frames 1..240, or 240 steps.
struct UnitRange {
  std::int64_t first = 1;
  std::int64_t last = 0;
  [[nodiscard]] std::int64_t count() const { return last - first + 1; }
  bool operator==(const UnitRange&) const = default;
};
BOOST_DESCRIBE_STRUCT(UnitRange, (), (first, last))

// 4 workers, or 2..8: as many as there is room for, and never fewer than the first.
struct WorkerRange {
  std::uint32_t min = 0;  // Zero: nothing was said.
  std::uint32_t max = 0;
  bool operator==(const WorkerRange&) const = default;
};
BOOST_DESCRIBE_STRUCT(WorkerRange, (), (min, max))

template <>
struct TextForm<Share> {
  static constexpr std::string_view kSchema = R"("type":["string","number"],"examples":["30%",0.3])";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, Share value);
  static Result<Share, std::string> parse(std::string_view text);
};
template <>
struct TextForm<Priority> {
  static constexpr std::string_view kSchema =
      R"("anyOf":[{"type":"integer","minimum":0,"maximum":100},{"enum":["idle","low","normal","high","critical"]}])";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, Priority value);
  static Result<Priority, std::string> parse(std::string_view text);
};
template <>
struct TextForm<CpuRange> {
  static constexpr std::string_view kSchema = R"("type":["string","number"],"examples":[4,"4+","4..8"])";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, CpuRange value);
  static Result<CpuRange, std::string> parse(std::string_view text);
};
template <>
struct TextForm<MemoryBounds> {
  static constexpr std::string_view kSchema =
      R"("type":["string","number"],"examples":["32GB","32+","16GB..64GB"])";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, MemoryBounds value);
  static Result<MemoryBounds, std::string> parse(std::string_view text);
};
template <>
struct TextForm<WorkerRange> {
  static constexpr std::string_view kSchema = R"("type":["string","integer"],"examples":[4,"2..8"])";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, WorkerRange value);
  static Result<WorkerRange, std::string> parse(std::string_view text);
};
template <>
struct TextForm<UnitRange> {
  static constexpr std::string_view kSchema = R"("type":["string","integer"],"examples":["1..240",240])";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, UnitRange value);
  static Result<UnitRange, std::string> parse(std::string_view text);
};

}  // namespace tranche::wire
