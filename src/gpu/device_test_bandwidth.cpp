// SPDX-License-Identifier: Apache-2.0
// How fast bytes move, and whether they arrive. The best of a few counts: what others do meanwhile is not the
// device's fault.
#include <algorithm>
#include <chrono>

#include "gpu/device_test_floors.hpp"
#include "gpu/device_tests.hpp"

namespace tranche::gpu {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t megabytes_per_second(std::size_t bytes, Clock::duration took) {
  const auto nanoseconds = std::max<std::int64_t>(std::chrono::nanoseconds(took).count(), 1);
  return static_cast<std::int64_t>(bytes) * 1000 / nanoseconds;
}

template <class Work>
Clock::duration best_of(unsigned repeats, Work&& work) {
  Clock::duration best = Clock::duration::max();
  for (unsigned i = 0; i < repeats; ++i) {
    const auto from = Clock::now();
    work();
    best = std::min(best, Clock::now() - from);
  }
  return best;
}

}  // namespace

std::vector<TestOutcome> test_bandwidth(DeviceSession& session, const BandwidthTestPlan& plan) {
  const std::size_t bytes = plan.bytes;
  const DeviceBuffer first = session.must_allocate(bytes), second = session.must_allocate(bytes);
  std::vector<std::uint32_t> sent(bytes / 4), received(bytes / 4);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint32_t>(i * 2654435761U);
  const Floors floors = floors_of(session.device());
  const auto in = best_of(plan.repeats, [&] {
    session.write(first, sent.data(), bytes);
    session.finish();
  });
  const auto within = best_of(plan.repeats, [&] {
    session.copy(first, second, bytes);
    session.finish();
  });
  const auto out = best_of(plan.repeats, [&] {
    session.read(second, received.data(), bytes);
    session.finish();
  });
  std::vector<TestOutcome> rows{
      judged("bandwidth.host_to_device", megabytes_per_second(bytes, in), floors.host_to_device, "MB/s"),
      judged("bandwidth.within_device", megabytes_per_second(bytes, within), floors.within_device, "MB/s"),
      judged("bandwidth.device_to_host", megabytes_per_second(bytes, out), floors.device_to_host, "MB/s")};
  const auto differs = std::mismatch(sent.begin(), sent.end(), received.begin());
  TestOutcome arrived{.name = "bandwidth.integrity", .verdict = Verdict::kPass, .unit = "MiB"};
  arrived.measured = static_cast<std::int64_t>(bytes >> 20);
  if (differs.first != sent.end()) {
    arrived.verdict = Verdict::kCritical;
    arrived.detail =
        "bytes changed on the way, the first at " + std::to_string((differs.first - sent.begin()) * 4);
  }
  rows.push_back(std::move(arrived));
  return rows;
}

TestOutcome test_latency(DeviceSession& session, unsigned launches) {
  const DeviceBuffer counter = session.must_allocate(64);
  session.launch("nothing", 1, counter);
  session.finish();
  std::vector<Clock::duration> times;
  const auto stop = Clock::now() + std::chrono::seconds(2);
  while (times.size() < launches && (times.size() < 3 || Clock::now() < stop)) {
    const auto from = Clock::now();
    session.launch("nothing", 1, counter);
    session.finish();
    times.push_back(Clock::now() - from);
  }
  std::sort(times.begin(), times.end());
  const auto median = std::max<std::int64_t>(std::chrono::nanoseconds(times[times.size() / 2]).count(), 1);
  TestOutcome out =
      judged("latency.launch", 1'000'000'000 / median, floors_of(session.device()).launches, "launches/s");
  if (out.detail.empty()) out.detail = "median " + std::to_string(median / 1000) + " us";
  cl_uint counted = 0;
  session.read(counter, &counted, sizeof counted);
  if (counted != times.size() + 1) {
    out.verdict = Verdict::kCritical;
    out.detail =
        std::to_string(counted) + " of " + std::to_string(times.size() + 1) + " launches took effect";
  }
  return out;
}

}  // namespace tranche::gpu
