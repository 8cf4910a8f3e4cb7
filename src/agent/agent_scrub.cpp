// SPDX-License-Identifier: Apache-2.0
// What is wiped after a lease, and the receipt for it. Wiping takes as long as the device takes, so it is a
// chore in the lane of that device.
#include "agent/agent_send.hpp"

namespace tranche::agent {
namespace {

wire::AcceptanceReceipt simulated_test() {
  return {
      .level = wire::TestLevel::kQuick,
      .verdict = wire::Verdict::kPass,
      .at = wall_time(),
      .table_version = "SIMULATED",
      .tests = {
          {.name = "simulated", .verdict = wire::Verdict::kPass, .detail = "SIMULATED: nothing was tested"}}};
}

void add_test(std::optional<wire::AcceptanceReceipt> test,
              const wire::ScrubReceipt& of,
              wire::Receipts& receipts) {
  if (!test) return;
  test->device = of.device;
  test->lease = of.lease;
  receipts.acceptances.push_back(std::move(*test));
}

}  // namespace

void Agent::begin_scrub(Job& job) {
  const LeasePage& page = job.folder.page();
  const wire::LeaseGrant& grant = job.folder.grant;
  for (std::size_t i = 0; i < grant.slices.size(); ++i) {
    const wire::SliceGrant& slice = grant.slices[i];
    wire::ScrubReceipt receipt{
        .device = slice.device, .lease = grant.lease, .tenant = grant.tenant, .at = wall_time()};
    receipt.processes_ended = page.processes_ended;
    receipt.scratch_wiped = page.scratch_wiped != 0;
    if (options_.simulated) {
      receipt.zeroed = receipt.verified = slice.vram;
      receipt.method = "SIMULATED";
      add_test(simulated_test(), receipt, job.receipts);
    } else if (!scrubber_ || i >= job.physical.size()) {
      receipt.method = "none: this node cannot wipe device memory";
    } else {
      ++job.wiping;
      const wire::DeviceFacts& device = devices_[job.physical[i]].facts;
      chores_->add(
          "wipe " + device.uuid,
          [this, device, lease = grant.lease, i, bytes = slice.vram, receipt]() mutable {
            auto test = scrubber_->test(device, bytes);
            scrubber_->scrub(device, bytes, receipt);
            return Chores::After([this, lease, i, test, receipt] { scrubbed(lease, i, test, receipt); });
          });
    }
    job.receipts.scrubs.push_back(std::move(receipt));
  }
}

void Agent::scrubbed(LeaseId lease,
                     std::size_t slice,
                     const std::optional<wire::AcceptanceReceipt>& test,
                     const wire::ScrubReceipt& receipt) {
  Job* job = job_of(lease);
  if (job == nullptr) return;
  add_test(test, receipt, job->receipts);
  job->receipts.scrubs[slice] = receipt;
  if (wire::is_clean(receipt) && guard_ && home_->has_guard()) {
    try {
      guard_->scrubbed(job->physical[slice]);
    } catch (const std::exception& error) { options_.log(error.what()); }
  }
  if (--job->wiping == 0) conclude(*job);
}

// What a tenant of the whole device left. Its processes are gone, or it would not have been told as ended.
void Agent::wipe_device(const wire::DeviceOrder& order,
                        const wire::DeviceFacts& device,
                        std::uint32_t physical) {
  if (!wipes_.insert(order.order).second) return;  // Told again after a break of the link.
  wire::ScrubReceipt receipt{
      .device = order.device, .lease = order.lease, .tenant = order.tenant, .at = wall_time()};
  receipt.scratch_wiped = true;  // Before anything of the lease is forgotten.
  if (const Job* job = job_of(order.lease)) {
    receipt.processes_ended = job->folder.page().processes_ended;
    receipt.scratch_wiped = job->folder.page().scratch_wiped != 0;
  }
  if (options_.simulated) {
    receipt.zeroed = receipt.verified = device.vram;
    receipt.method = "SIMULATED";
    return wiped(order, physical, simulated_test(), receipt);
  }
  if (!scrubber_) {
    receipt.method = "none: this node cannot wipe device memory";
    return wiped(order, physical, std::nullopt, receipt);
  }
  chores_->add("wipe " + device.uuid, [this, order, device, physical, receipt]() mutable {
    auto test = scrubber_->test(device, device.vram);
    scrubber_->scrub(device, device.vram, receipt);
    return Chores::After([this, order, physical, test, receipt] { wiped(order, physical, test, receipt); });
  });
}

void Agent::wiped(const wire::DeviceOrder& order,
                  std::uint32_t physical,
                  const std::optional<wire::AcceptanceReceipt>& test,
                  const wire::ScrubReceipt& receipt) {
  wipes_.erase(order.order);
  if (wire::is_clean(receipt) && guard_ && home_->has_guard()) {
    try {
      guard_->scrubbed(physical);
    } catch (const std::exception& error) { options_.log(error.what()); }
  }
  wire::Receipts receipts;
  add_test(test, receipt, receipts);
  receipts.scrubs.push_back(receipt);
  receipts.outcomes.push_back({.order = order.order,
                               .device = order.device,
                               .task = order.task,
                               .done = wire::is_clean(receipt),
                               .message = wire::is_clean(receipt) ? "" : receipt.method});
  send_surely(receipts);
}

// A lease that ran out while its slices were being wiped: the server may have given them to somebody else by
// now, and he must wait.
LeaseId Agent::wiped_after_expiry(const std::string& uuid) const {
  for (const auto& [lease, job] : jobs_) {
    if (job.wiping == 0 || job.told_end || table_.door(lease, job.folder.grant.epoch) == Door::kOpen)
      continue;
    for (const wire::SliceGrant& slice : job.folder.grant.slices)
      if (slice.uuid == uuid) return lease;
  }
  return {};
}

}  // namespace tranche::agent
