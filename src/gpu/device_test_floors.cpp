// SPDX-License-Identifier: Apache-2.0
#include "gpu/device_test_floors.hpp"

#include <utility>

#include "wire/gpu_catalog.hpp"

namespace tranche::gpu {
namespace {

// A CPU shares itself with everything else on the machine: only what is broken is below these.
constexpr Floors kCpu{
    .host_to_device = 50, .device_to_host = 50, .within_device = 50, .compute = 5, .launches = 50};

// In hundredths of what the sheet says. A copy reads and writes, so half of the memory's bandwidth is the
// most that it can reach; our chain waits for itself, and is mostly integer work.
constexpr std::int64_t kCopyPercent = 30;
constexpr std::int64_t kComputePercent = 5;
constexpr std::int64_t kPciePageable = 2000;  // MB/s, from memory that is not pinned, on any link in use.
constexpr std::int64_t kLaunches = 5000;

}  // namespace

Floors floors_of(const OpenClDevice& device) {
  if (device.is_cpu) return kCpu;
  const wire::GpuModel* const model = wire::find_gpu_model(device.facts.model);
  if (model == nullptr) return {};
  return {.host_to_device = kPciePageable,
          .device_to_host = kPciePageable,
          .within_device = std::int64_t{model->bandwidth_gb_per_second} * 1000 * kCopyPercent / 100,
          .compute = std::int64_t{model->fp32_gflops} * 1000 * kComputePercent / 100,
          .launches = kLaunches};
}

wire::TestOutcome judged(std::string name, std::int64_t measured, std::int64_t floor, std::string unit) {
  wire::TestOutcome out{
      .name = std::move(name), .measured = measured, .floor = floor, .unit = std::move(unit)};
  out.verdict = wire::Verdict::kPass;
  if (floor == 0) {
    out.verdict = wire::Verdict::kInfo;
    out.detail = "no floor is known for this model";
  } else if (measured < floor) {
    out.verdict = measured < floor / 2 ? wire::Verdict::kCritical : wire::Verdict::kWarning;
    out.detail = kSlower;
  }
  return out;
}

}  // namespace tranche::gpu
