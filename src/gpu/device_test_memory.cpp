// SPDX-License-Identifier: Apache-2.0
// Every byte that can be had holds a one and a zero in every bit, an address of its own, and noise; and gives
// back what was written. All memory is written before any is read, so that two addresses that reach one cell
// are found as well.
#include <array>
#include <chrono>

#include "gpu/device_test_kernels.hpp"
#include "gpu/device_tests.hpp"

namespace tranche::gpu {
namespace {

constexpr std::uint64_t kUnit = 64;
constexpr std::uint64_t kInverse = ~std::uint64_t{0};

struct Pass {
  MemoryPattern pattern = MemoryPattern::kWalkingOnes;
  std::uint64_t seed = 0;
  std::uint64_t flip = 0;
};

struct Differences {
  std::uint64_t units = 0;
  std::uint64_t first_byte = 0;  // Counted over all buffers.
};

Differences run_pass(DeviceSession& session,
                     const std::vector<DeviceBuffer>& memory,
                     const DeviceBuffer& result,
                     const Pass& pass) {
  const auto pattern = static_cast<cl_uint>(pass.pattern);
  std::uint64_t before = 0;
  for (const DeviceBuffer& buffer : memory) {  // The seed goes on, so that no two buffers are alike.
    const cl_ulong units = buffer.bytes() / kUnit, seed = pass.seed + before / 8;
    session.launch(
        "pattern_fill", session.items_to_fill(), buffer, units, pattern, seed, cl_ulong{pass.flip});
    before += buffer.bytes();
  }
  session.finish();
  Differences found;
  before = 0;
  for (const DeviceBuffer& buffer : memory) {
    const cl_ulong units = buffer.bytes() / kUnit, seed = pass.seed + before / 8;
    std::array<cl_uint, 2> counted{0, UINT32_MAX};
    session.write(result, counted.data(), sizeof counted);
    session.launch(
        "pattern_check", session.items_to_fill(), buffer, units, pattern, seed, cl_ulong{pass.flip}, result);
    session.finish();
    session.read(result, counted.data(), sizeof counted);
    if (counted[0] != 0 && found.units == 0) found.first_byte = before + counted[1] * kUnit;
    found.units += counted[0];
    before += buffer.bytes();
  }
  return found;
}

TestOutcome run_pattern(DeviceSession& session,
                        const std::vector<DeviceBuffer>& memory,
                        const DeviceBuffer& result,
                        const char* name,
                        const std::vector<Pass>& passes,
                        const StepListener& told) {
  TestOutcome out{.name = name, .verdict = Verdict::kPass, .unit = "MiB"};
  for (const DeviceBuffer& buffer : memory) out.measured += static_cast<std::int64_t>(buffer.bytes());
  out.measured >>= 20;
  unsigned done = 0;
  for (const Pass& pass : passes) {
    if (told) told(name, done++, static_cast<unsigned>(passes.size()));
    const Differences found = run_pass(session, memory, result, pass);
    if (found.units == 0) continue;
    out.verdict = Verdict::kCritical;
    out.detail = std::to_string(found.units) + " blocks of 64 bytes came back changed, the first at byte " +
                 std::to_string(found.first_byte);
    break;
  }
  return out;
}

}  // namespace

std::vector<TestOutcome> test_memory(DeviceSession& session, const MemoryTestPlan& plan) {
  const DeviceBuffer result = session.must_allocate(kUnit);
  const auto memory = take_free_memory(session, plan.budget);
  if (memory.empty()) throw CannotRun("the device has no free memory to test");
  std::vector<Pass> walking, address, noise;
  // Sixty-four steps would put a one into every bit of every word; a step and its inverse do so in two.
  for (unsigned step = 0; step < plan.rounds; ++step) {
    walking.push_back({MemoryPattern::kWalkingOnes, step, 0});
    walking.push_back({MemoryPattern::kWalkingOnes, step, kInverse});
    address.push_back({MemoryPattern::kAddress, step, 0});
    address.push_back({MemoryPattern::kAddress, step, kInverse});
    noise.push_back({MemoryPattern::kRandom, (step + 1) * 0x5851F42D4C957F2DULL, 0});
    noise.push_back({MemoryPattern::kRandom, (step + 1) * 0x5851F42D4C957F2DULL, kInverse});
  }
  return {run_pattern(session, memory, result, "memory.walking_ones", walking, plan.told),
          run_pattern(session, memory, result, "memory.address", address, plan.told),
          run_pattern(session, memory, result, "memory.random", noise, plan.told)};
}

}  // namespace tranche::gpu
