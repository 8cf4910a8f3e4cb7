// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GPU string: H100:0.5, 10GB, A100-80GB:2, [L4, A100], {gpu: H100, vram: 20GB, compute: 30%}.
//
//   request = "[" item {"," item} "]"      in order of preference
//           | "{" item {"," item} "}"      no preference
//           | "{" key: value {"," …} "}"   the long form: gpu, count, vram, compute, isolation
//           | item
//   item    = ["gpu:"] [vendor ":"] body
//   body    = memory [":" count] | model [":" memory] [":" count | ":" profile] | count after gpu or a vendor
//   | share share   = 0.5, or 0.25..0.5 for a slice that may be made smaller and larger while it runs
//
// One parser for command line, job file, API and SDK. Any case is taken; printing gives one canonical form.
#include <boost/describe/class.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "wire/fields.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/isolation.hpp"

namespace tranche::wire {

// One way to meet a request.
struct GpuItem {
  GpuVendor vendor = GpuVendor::kAny;
  // Share of each device. Beside vram it is the share of its compute only; zero: in proportion to vram.
  std::uint16_t milli = 1000;
  std::uint16_t milli_max = 0;  // Of a slice that can do with less than it would like; zero: no range.
  std::uint32_t count_min = 1;  // Devices, or slices of devices.
  std::uint32_t count_max = 1;
  std::string model{};    // Short name of the catalogue, or the variant's own name; empty: any.
  Bytes memory_min{};     // Of the whole device; zero: whatever it has.
  Bytes memory_max{};     // Zero: no upper bound.
  Bytes vram{};           // Of the slice: 10GB free on any device; zero: by share.
  std::string profile{};  // 1g.10gb, a hardware partition; then milli does not count.
  Bytes vram_max{};       // Likewise.
  bool operator==(const GpuItem&) const = default;
};
BOOST_DESCRIBE_STRUCT(
    GpuItem,
    (),
    (vendor, model, count_min, count_max, memory_min, memory_max, vram, milli, profile, milli_max, vram_max))

enum class GpuOrder : std::uint8_t { kAny, kOrdered };
BOOST_DESCRIBE_ENUM(GpuOrder, kAny, kOrdered)

struct GpuRequest {
  GpuOrder order = GpuOrder::kAny;
  Isolation isolation = Isolation::kDefault;  // Only the long form says it.
  std::vector<GpuItem> items{};               // Empty: no GPU is asked for.
  bool operator==(const GpuRequest&) const = default;
};
BOOST_DESCRIBE_STRUCT(GpuRequest, (), (order, isolation, items))

struct GpuProblem {
  std::size_t position = 0;  // Of the first byte that is wrong.
  std::string message{};
  std::string nearest{};  // A legal form that may have been meant; empty: none comes to mind.
};

Result<GpuRequest, GpuProblem> parse_gpu_request(std::string_view text);
std::string text(const GpuRequest& request);
std::string text(const GpuItem& item);

// The string, a caret below the mistake, and what would be legal: three lines for a terminal.
std::string caret_text(std::string_view request, const GpuProblem& problem);
// The same in one line.
std::string line_text(const GpuProblem& problem);

// Whether a device of the catalogue is one that the item names, going by vendor, model and memory.
bool accepts(const GpuItem& item, const GpuModel& model);

template <>
struct TextForm<GpuRequest> {
  static constexpr std::string_view kSchema =
      R"("type":"string","examples":["H100","H100:0.5","10GB","A100-80GB:2","24GB..40GB:2","H100:1g.10gb"])";
  static constexpr bool kNumbers = false;
  static void append(std::string& json, const GpuRequest& value);
  static Result<GpuRequest, std::string> parse(std::string_view text);
};

}  // namespace tranche::wire
