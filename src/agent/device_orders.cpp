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
// Orders for the devices of a node come one after the other: the first is to know of the others as well.
constexpr auto kGather = std::chrono::milliseconds(250);

struct Work {
  wire::DeviceOrder order{};
  wire::DeviceFacts device{};
  std::vector<std::string> together{};  // Others that wait to be accepted: nobody is on them.
};

std::string handle_of(const wire::DeviceFacts& device) {
  return device.pci_address.empty() ? device.uuid : device.pci_address;
}

std::filesystem::path file_of(const std::string& scratch, std::string_view what, std::uint64_t order) {
  return std::filesystem::path(scratch) /
         ("device-" + std::string(what) + "-" + std::to_string(order) + ".json");
}

std::string content_of(const std::filesystem::path& file) {
  std::ostringstream text;
  if (std::ifstream report(file, std::ios::binary); report) text << report.rdbuf();
  return text.str();
}

wire::Receipts carry_out(const Work& work, const DeviceOrdersOptions& options) {
  wire::Receipts out;
  wire::DeviceOutcome outcome{
      .order = work.order.order, .device = work.order.device, .task = work.order.task};
  const auto file = file_of(options.scratch, "report", work.order.order);
  const auto progress = file_of(options.scratch, "progress", work.order.order);
  gpu::ProgramStart start{.limit = limit_of(work.order.level)};
  start.command = {options.program,
                   "device",
                   "test",
                   "--device",
                   handle_of(work.device),
                   "--level",
                   std::string(wire::name_of(work.order.level)),
                   "--cpu-memory",
                   std::string(kOfACpu),
                   "--report",
                   file.string(),
                   "--progress",
                   progress.string()};
  for (const std::string& other : work.together) {
    start.command.emplace_back("--together");
    start.command.push_back(other);
  }
  if (work.order.task == wire::DeviceTask::kAccept) start.command.emplace_back("--scrub");
  const gpu::ProgramEnd end = gpu::run_program(start);
  const std::string text = content_of(file);
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  std::filesystem::remove(progress, ignored);
  std::filesystem::remove(progress.string() + ".new", ignored);  // Of a test that was ended as it wrote.
  const auto reports = wire::from_json<gpu::DeviceReports>(text);
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
  std::uint64_t current = 0;  // The order that is carried out.
  bool running = false;
  bool wanted = true;

  Work take_next() {
    Work work = std::move(waiting.front());
    waiting.pop_front();
    for (const Work& other : waiting)
      if (other.order.device != work.order.device && other.order.task == wire::DeviceTask::kAccept)
        work.together.push_back(handle_of(other.device));
    current = work.order.order;
    return work;
  }
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
    std::this_thread::sleep_for(kGather);
    for (;;) {
      Work work;
      {
        const std::lock_guard inner(shared->mutex);
        if (shared->waiting.empty() || !shared->wanted) {
          shared->running = false;
          return;
        }
        work = shared->take_next();
      }
      wire::Receipts answer = carry_out(work, shared->options);
      const std::lock_guard inner(shared->mutex);
      shared->current = 0;
      if (!shared->wanted) continue;
      shared->answers.push_back(std::move(answer));
      shared->options.ring();
    }
  }).detach();
}

wire::TestsUnderWay DeviceOrders::progress() const {
  wire::TestsUnderWay out;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->current != 0) {
    const auto said = wire::from_json<wire::TestProgress>(
        content_of(file_of(shared_->options.scratch, "progress", shared_->current)));
    wire::TestProgress now = said ? *said : wire::TestProgress{.part = "starting"};
    now.order = shared_->current;
    out.items.push_back(std::move(now));
  }
  for (const Work& work : shared_->waiting) out.items.push_back({.order = work.order.order});
  return out;
}

std::vector<wire::Receipts> DeviceOrders::take_answers() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->answers, {});
}

}  // namespace tranche::agent
