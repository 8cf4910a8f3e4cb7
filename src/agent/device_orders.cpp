// SPDX-License-Identifier: Apache-2.0
#include "agent/device_orders.hpp"

#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "gpu/child_program.hpp"
#include "gpu/device_tests.hpp"
#include "wire/codec.hpp"
#include "wire/fields.hpp"

namespace tranche::agent {
namespace {

std::chrono::seconds limit_of(wire::TestLevel level) {
  switch (level) {
    case wire::TestLevel::kQuick:
      return std::chrono::minutes(10);
    case wire::TestLevel::kStandard:
      return std::chrono::hours(1);
    case wire::TestLevel::kFull:
      break;
  }
  return std::chrono::hours(6);
}

// What the machine itself and its other jobs need stays theirs.
constexpr std::string_view kOfACpu = "1GiB";

struct Work {
  wire::DeviceOrder order{};
  wire::DeviceFacts device{};
};

wire::Receipts carry_out(const Work& work, const DeviceOrdersOptions& options) {
  wire::Receipts out;
  wire::DeviceOutcome outcome{
      .order = work.order.order, .device = work.order.device, .task = work.order.task};
  const auto file = std::filesystem::path(options.scratch) /
                    ("device-report-" + std::to_string(work.order.order) + ".json");
  gpu::ProgramStart start{.limit = limit_of(work.order.level)};
  start.command = {options.program,
                   "device",
                   "test",
                   "--device",
                   work.device.pci_address.empty() ? work.device.uuid : work.device.pci_address,
                   "--level",
                   std::string(wire::name_of(work.order.level)),
                   "--cpu-memory",
                   std::string(kOfACpu),
                   "--report",
                   file.string()};
  if (work.order.task == wire::DeviceTask::kAccept) start.command.emplace_back("--scrub");
  const gpu::ProgramEnd end = gpu::run_program(start);
  std::ostringstream text;
  if (std::ifstream report(file, std::ios::binary); report) text << report.rdbuf();
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  const auto reports = wire::from_json<gpu::DeviceReports>(text.str());
  if (!reports || reports->items.empty()) {
    outcome.message = end.timed_out ? "the test did not end in time"
                                    : "the test could not run: " + end.output.substr(0, 300);
  } else {
    outcome.done = true;
    gpu::DeviceReport report = reports->items.front();
    report.receipt.device = work.order.device;
    out.acceptances.push_back(std::move(report.receipt));
    if (work.order.task == wire::DeviceTask::kAccept) {
      report.scrub.device = work.order.device;
      out.scrubs.push_back(std::move(report.scrub));
    }
  }
  out.outcomes.push_back(std::move(outcome));
  return out;
}

}  // namespace

struct DeviceOrders::Shared {
  DeviceOrdersOptions options{};
  std::mutex mutex{};
  std::deque<Work> waiting{};
  std::set<std::uint64_t> known{};
  std::vector<wire::Receipts> answers{};
  bool running = false;
  bool wanted = true;
};

DeviceOrders::DeviceOrders(DeviceOrdersOptions options) : shared_(std::make_shared<Shared>()) {
  shared_->options = std::move(options);
}

DeviceOrders::~DeviceOrders() {
  const std::lock_guard lock(shared_->mutex);
  shared_->wanted = false;
  shared_->waiting.clear();
}

void DeviceOrders::begin(const wire::DeviceOrder& order, const wire::DeviceFacts& device) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->known.insert(order.order).second) return;
  shared_->waiting.push_back({order, device});
  if (std::exchange(shared_->running, true)) return;
  // One at a time: two tests would disturb each other's figures.
  std::thread([shared = shared_] {
    for (;;) {
      Work work;
      {
        const std::lock_guard inner(shared->mutex);
        if (shared->waiting.empty() || !shared->wanted) {
          shared->running = false;
          return;
        }
        work = std::move(shared->waiting.front());
        shared->waiting.pop_front();
      }
      wire::Receipts answer = carry_out(work, shared->options);
      const std::lock_guard inner(shared->mutex);
      if (!shared->wanted) continue;
      shared->answers.push_back(std::move(answer));
      shared->options.ring();
    }
  }).detach();
}

std::vector<wire::Receipts> DeviceOrders::take_answers() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->answers, {});
}

}  // namespace tranche::agent
