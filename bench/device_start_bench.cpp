// SPDX-License-Identifier: Apache-2.0
// From a submission to the first instruction of a job that asks for a device of this machine (PoCL: a real
// OpenCL device on the processor), a slice of it or all of it: where it is clean, and where another tenant
// has just left all of it, so that it is wiped, read back and tested first. Of a processor's memory that is
// a part (gpu/scrub.hpp).
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/site.hpp"
#include "wire/api_node.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::system_clock;

constexpr const char* kOnSlice = R"({"run":"date +%s%6N","resources":{"gpus":"1GB"}})";
constexpr const char* kOnDevice = R"({"run":"date +%s%6N","resources":{"gpus":"gpu:1"}})";
constexpr auto kPatience = 60s;  // A busy machine gives fewer starts, not a longer wait.

// By the job's own clock, in milliseconds.
double start_of(Caller& user, const char* job) {
  const auto began = std::chrono::time_point_cast<Duration>(Clock::now());
  const JobId id = user.submit(job);
  user.until_over(id);
  for (int i = 0; i < 400; ++i) {  // Logs follow the end.
    const std::string out = user.ask("GET", "/v1/jobs/" + text(id) + "/logs?stream=stdout");
    if (!out.empty()) return static_cast<double>((Instant(Duration(std::stoll(out))) - began).count()) / 1000;
    std::this_thread::sleep_for(5ms);
  }
  throw std::runtime_error("a job left no output");
}

void until_clean(Site& site) {
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    const auto nodes = site.root().get<wire::NodeList>("/v1/nodes");
    bool clean = true;
    for (const wire::NodeView& node : nodes.items)
      for (const wire::DeviceView& device : node.devices)
        clean = clean && device.state == wire::DeviceState::kHealthy && device.milli_used == 0;
    if (clean) return;
    if (Clock::now() > deadline) throw std::runtime_error("the device was not wiped in time");
    std::this_thread::sleep_for(20ms);
  }
}

double percentile(std::vector<double> all, std::size_t percent) {
  std::sort(all.begin(), all.end());
  return all[std::min(all.size() - 1, all.size() * percent / 100)];
}

}  // namespace

std::vector<Row> device_start_rows() {
  if (!wanted("device")) return {};
  Site site;
  Caller first = site.user("acme", "ana"), second = site.user("globex", "bo");
  constexpr std::size_t kStarts = 100;
  progress("device: starts on a slice that is clean");
  std::vector<double> slices;
  for (const auto since = Clock::now(); slices.size() < kStarts && Clock::now() - since < kPatience;) {
    until_clean(site);
    slices.push_back(start_of(first, kOnSlice));
  }
  progress("device: starts on a whole device that is clean, and on one that another tenant has just left");
  std::vector<double> clean, dirty;
  for (const auto since = Clock::now(); clean.size() < kStarts && Clock::now() - since < kPatience;) {
    until_clean(site);
    clean.push_back(start_of(first, kOnDevice));
    dirty.push_back(start_of(second, kOnDevice));  // At once: the device is still being wiped.
  }
  double bytes = 0;
  for (const wire::NodeView& node : site.root().get<wire::NodeList>("/v1/nodes").items)
    for (const wire::DeviceView& device : node.devices) bytes = static_cast<double>(device.vram.count);
  const auto row = [](const std::string& what, double value, double goal) {
    return Row{.what = what, .value = value, .unit = "ms", .goal = goal, .better = Better::kLower};
  };
  const std::string start = "submission over HTTP -> first instruction on ";
  return {
      row(start + "1 GB of a device, clean, p50 of " + std::to_string(slices.size()),
          percentile(slices, 50),
          25),
      row("their p99", percentile(slices, 99), 100),
      row(start + "a whole device, clean, p50 of " + std::to_string(clean.size()), percentile(clean, 50), 25),
      row("their worst", percentile(clean, 100), 100),
      row("the same right after another tenant's job, 64 MiB of it (a CPU) wiped and verified, p50",
          percentile(dirty, 50),
          0),
      row("their worst", percentile(dirty, 100), 0),
      {.what = "memory of that device", .value = bytes / (1 << 30), .unit = "GiB"}};
}

}  // namespace tranche::bench
