// SPDX-License-Identifier: Apache-2.0
#include "gpu/scrub.hpp"

#include <algorithm>
#include <chrono>

#include "gpu/device_identity.hpp"

namespace tranche::gpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kUnit = 64;
constexpr std::size_t kQueuedMost = std::size_t{1} << 30;
constexpr std::int64_t kEnoughOfACpu = std::int64_t{64} << 20;

Duration since(Clock::time_point from) {
  return std::chrono::duration_cast<Duration>(Clock::now() - from);
}

std::uint32_t read_counter(DeviceSession& session, const DeviceBuffer& counter) {
  cl_uint value = 0;
  session.read(counter, &value, sizeof value);
  return value;
}

// Only runs when something was left: exact, so that the receipt says how much.
std::int64_t count_nonzero(DeviceSession& session,
                           const std::vector<DeviceBuffer>& memory,
                           const DeviceBuffer& counter) {
  std::int64_t found = 0;
  for (const DeviceBuffer& buffer : memory) {
    session.fill(counter, 0);
    session.launch("count_nonzero", session.items_to_fill(), buffer, cl_ulong{buffer.bytes()}, counter);
    session.finish();
    found += read_counter(session, counter);
  }
  return found;
}

}  // namespace

std::int64_t enough_to_wipe(const OpenClDevice& device, std::int64_t bytes) {
  if (!device.is_cpu) return bytes;
  return bytes > 0 ? std::min(bytes, kEnoughOfACpu) : kEnoughOfACpu;
}

std::string_view why_a_part(const OpenClDevice& device, std::int64_t bytes) {
  return enough_to_wipe(device, bytes) == bytes
             ? ""
             : ", a part: the machine's kernel zeroes what was a process's";
}

ScrubOutcome zero_and_verify(DeviceSession& session, const std::vector<DeviceBuffer>& memory) {
  const DeviceBuffer counter = session.must_allocate(kUnit);
  ScrubOutcome out;
  const auto from = Clock::now();
  auto queued = [&session, since_wait = std::size_t{0}](const DeviceBuffer& buffer) mutable {
    since_wait += buffer.bytes();
    if (since_wait < kQueuedMost) return;
    session.finish();  // So that it can be broken off.
    since_wait = 0;
  };
  for (const DeviceBuffer& buffer : memory) {
    session.launch("zero_fill", session.items_to_fill(), buffer, cl_ulong{buffer.bytes() / kUnit});
    out.zeroed.count += static_cast<std::int64_t>(buffer.bytes());
    queued(buffer);
  }
  session.finish();
  out.zeroing = since(from);
  const auto middle = Clock::now();
  session.fill(counter, 0);
  for (const DeviceBuffer& buffer : memory) {
    session.launch(
        "find_nonzero", session.items_to_fill(), buffer, cl_ulong{buffer.bytes() / kUnit}, counter);
    out.verified.count += static_cast<std::int64_t>(buffer.bytes());
    queued(buffer);
  }
  session.finish();
  const bool clean = read_counter(session, counter) == 0;
  out.reading = since(middle);
  if (!clean) out.nonzero_bytes = std::max<std::int64_t>(count_nonzero(session, memory, counter), 1);
  out.took = since(from);
  return out;
}

ScrubOutcome zero_and_verify(const OpenClDevice& device, std::int64_t budget) {
  const auto from = Clock::now();
  DeviceSession session(device);
  const auto memory = take_free_memory(session, budget);
  if (memory.empty()) throw CannotRun("the device gave no memory to wipe");
  ScrubOutcome out = zero_and_verify(session, memory);
  out.took = since(from);
  return out;
}

wire::ScrubReceipt receipt_of(const ScrubOutcome& outcome) {
  return {.at = wall_time(),
          .took = outcome.took,
          .zeroed = outcome.zeroed,
          .verified = outcome.verified,
          .nonzero_bytes = outcome.nonzero_bytes,
          .method = "opencl: zeroed and read back by kernels"};
}

std::int64_t bytes_per_second(const ScrubOutcome& outcome) {
  const std::int64_t microseconds = std::max<std::int64_t>((outcome.zeroing + outcome.reading).count(), 1);
  return static_cast<std::int64_t>(static_cast<double>(outcome.verified.count) * 1e6 /
                                   static_cast<double>(microseconds));
}

}  // namespace tranche::gpu
