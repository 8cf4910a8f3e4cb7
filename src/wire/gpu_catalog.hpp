// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which accelerators exist, and what their makers say of them: for sizing, GPU strings and planning. What a
// device itself reports at run time always wins over this table.
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"

namespace tranche::wire {

enum class GpuVendor : std::uint8_t { kAny, kNvidia, kAmd, kIntel };
BOOST_DESCRIBE_ENUM(GpuVendor, kAny, kNvidia, kAmd, kIntel)

struct GpuModel {
  std::string_view name;        // H100-SXM5-80GB: tells every variant apart.
  std::string_view short_name;  // H100: what people write, and what is printed.
  std::string_view aliases;     // H100;H100-80GB;H100-SXM
  std::string_view family;      // H100: all variants of one chip.
  GpuVendor vendor = GpuVendor::kAny;
  std::string_view architecture;
  std::string_view capability;  // Compute capability, or the gfx name.
  Bytes vram{};
  std::string_view memory;
  std::int32_t bandwidth_gb_per_second = 0;
  std::int32_t multiprocessors = 0;  // SMs or compute units.
  std::int32_t fp16_gflops = 0;      // Dense.
  std::int32_t fp32_gflops = 0;      // 0: not stated.
  std::int32_t power_watts = 0;
  std::int32_t partitions_max = 0;
};

std::span<const GpuModel> gpu_catalog();

// By name, short name or alias, in any case; nullptr when there is none.
const GpuModel* find_gpu_model(std::string_view name);

// The one spelling of `name`, any name of `model`: H100-80GB is H100, but h100-sxm is H100-SXM, one variant.
std::string_view canonical_gpu_name(const GpuModel& model, std::string_view name);

// Whether `device` is what somebody means who writes `asked`: that very variant, or, when the name does not
// say more than chip and memory (A100, A100-80GB), any variant with them. `any_memory` drops the memory, for
// those who give a range of their own.
enum class MemoryMatch : std::uint8_t { kSame, kAny };
bool is_meant_by(const GpuModel& device, std::string_view asked, MemoryMatch memory);

std::string lower_case(std::string_view text);  // ASCII only.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace tranche::wire
