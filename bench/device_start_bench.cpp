// SPDX-License-Identifier: Apache-2.0
// From a submission to the first instruction of a job that asks for the whole device of this machine (PoCL: a
// real OpenCL device on the processor): where it is clean, and where another tenant has just left it, so that
// all of its memory is wiped, read back and tested first.
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

constexpr const char* kJob = R"({"run":"date +%s%6N","resources":{"gpus":"gpu:1"}})";
constexpr auto kPatience = 60s;

// By the job's own clock, in milliseconds.
double start_of(Caller& user) {
  const auto began = std::chrono::time_point_cast<Duration>(Clock::now());
  const JobId id = user.submit(kJob);
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

double at_half(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace

std::vector<Row> device_start_rows() {
  if (!wanted("device")) return {};
  progress("device: starts on a clean device, and on one that another tenant has just left");
  Site site;
  Caller first = site.user("acme", "ana"), second = site.user("globex", "bo");
  std::vector<double> clean, dirty;
  for (const auto since = Clock::now(); clean.size() < 10 && Clock::now() - since < kPatience;) {
    until_clean(site);
    clean.push_back(start_of(first));
    dirty.push_back(start_of(second));  // At once: the device is still being wiped.
  }
  double bytes = 0;
  for (const wire::NodeView& node : site.root().get<wire::NodeList>("/v1/nodes").items)
    for (const wire::DeviceView& device : node.devices) bytes = static_cast<double>(device.vram.count);
  return {{.what = "submission -> first instruction on a whole device that is clean, p50",
           .value = at_half(clean),
           .unit = "ms",
           .goal = 25,
           .better = Better::kLower},
          {.what = "the same right after another tenant's job, all of its memory wiped and verified, p50",
           .value = at_half(dirty),
           .unit = "ms"},
          {.what = "memory of that device", .value = bytes / (1 << 30), .unit = "GiB"}};
}

}  // namespace tranche::bench
