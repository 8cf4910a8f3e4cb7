// SPDX-License-Identifier: Apache-2.0
// Long chains of arithmetic on every unit of the device, all of whose ends are known in advance.
#include <bit>
#include <chrono>
#include <cmath>

#include "gpu/device_test_floors.hpp"
#include "gpu/device_tests.hpp"

namespace tranche::gpu {
namespace {

constexpr unsigned kDistinct = 256;
constexpr std::int64_t kFloatingPointEach = 3;  // A product, and a product with a sum.

std::vector<float> starts() {
  std::vector<float> out(kDistinct);
  for (unsigned i = 0; i < kDistinct; ++i)
    out[i] = 0.1F + static_cast<float>(i) * (0.75F / static_cast<float>(kDistinct));
  return out;
}

// The kernel `burn` on the host: the same steps with the same rounding.
std::uint32_t chain_end(float x, std::uint32_t h, unsigned rounds) {
  for (unsigned round = 0; round < rounds; ++round) {
    const float y = 3.7F * x;
    x = std::fma(-y, x, y);
    h = (h ^ std::bit_cast<std::uint32_t>(x)) * 0x9E3779B1U;
    h ^= h >> 15U;
  }
  return h;
}

}  // namespace

TestOutcome test_compute(DeviceSession& session, const ComputeTestPlan& plan) {
  using Clock = std::chrono::steady_clock;
  const std::size_t items = std::max<std::size_t>(session.items_to_fill() * 4, std::size_t{4} * kDistinct);
  const std::vector<float> begin = starts();
  const DeviceBuffer inputs = session.must_allocate(begin.size() * sizeof(float));
  const DeviceBuffer outputs = session.must_allocate(items * sizeof(std::uint32_t));
  session.write(inputs, begin.data(), begin.size() * sizeof(float));
  std::vector<std::uint32_t> ends(items);
  std::uint64_t wrong = 0, first_wrong = 0;
  Clock::duration best = Clock::duration::max();
  for (unsigned launch = 0; launch < plan.launches; ++launch) {
    if (plan.told) plan.told("compute.burn", launch, plan.launches);
    const cl_uint seed = 0x1234567U * (launch + 1);
    session.fill(outputs, 0xA5);  // An item that is left out must not be saved by the launch before.
    session.finish();
    const auto from = Clock::now();
    session.launch("burn", items, inputs, cl_uint{kDistinct}, cl_uint{plan.rounds}, seed, outputs);
    session.finish();
    best = std::min(best, Clock::now() - from);
    session.read(outputs, ends.data(), items * sizeof(std::uint32_t));
    for (unsigned i = 0; i < kDistinct; ++i) {
      const std::uint32_t right = chain_end(begin[i], seed + i, plan.rounds);
      for (std::size_t item = i; item < items; item += kDistinct) {
        if (ends[item] == right) continue;
        if (wrong++ == 0) first_wrong = item;
      }
    }
  }
  const auto nanoseconds = std::max<std::int64_t>(std::chrono::nanoseconds(best).count(), 1);
  const auto operations = static_cast<std::int64_t>(items) * plan.rounds * kFloatingPointEach;
  TestOutcome out =
      judged("compute.burn", operations * 1000 / nanoseconds, floors_of(session.device()).compute, "MFLOP/s");
  if (wrong != 0) {
    out.verdict = Verdict::kCritical;
    out.detail = std::to_string(wrong) + " of " + std::to_string(items * plan.launches) +
                 " results are wrong, the first in item " + std::to_string(first_wrong);
  }
  return out;
}

}  // namespace tranche::gpu
