// SPDX-License-Identifier: Apache-2.0
// Wipes that may wait. While one tenant alone uses a device, its slices go from one of its jobs to the next
// as they are: the wipe is owed, and done before anybody else's job starts there, or when the device falls
// idle. What is owed survives the agent: a lease that owes is not settled, so the next agent begins its end
// anew.
#include <algorithm>
#include <utility>

#include "agent/agent_send.hpp"

namespace tranche::agent {
namespace {

bool has_slice_of(const wire::LeaseGrant& grant, const std::string& uuid) {
  return std::any_of(grant.slices.begin(), grant.slices.end(), [&](const wire::SliceGrant& slice) {
    return slice.uuid == uuid;
  });
}

}  // namespace

bool Agent::in_use(const std::string& uuid) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const Job& job = entry.second;
    return has_slice_of(job.folder.grant, uuid) && !job.settling && job.folder.page().settled == 0;
  });
}

// Nothing was set up for it that is taken down before it is over.
bool Agent::is_plain_share(const Job& job) const {
  const wire::LeaseGrant& grant = job.folder.grant;
  for (std::size_t i = 0; i < grant.slices.size(); ++i) {
    const SliceView share = shares_->view(grant.lease, i);
    if (!share.partition.empty() || !share.daemon_folder.empty()) return false;
  }
  return true;
}

bool Agent::may_wait(const Job& job) const {
  const wire::LeaseGrant& grant = job.folder.grant;
  if (options_.simulated || !scrubber_ || grant.slices.size() != 1 || job.physical.size() != 1) return false;
  if (!is_plain_share(job)) return false;
  const std::string& uuid = grant.slices.front().uuid;
  const bool alone = std::all_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const wire::LeaseGrant& other = entry.second.folder.grant;
    return !has_slice_of(other, uuid) || entry.second.folder.page().settled != 0 ||
           other.tenant == grant.tenant;
  });
  return alone && in_use(uuid);
}

void Agent::owe_wipe(Job& job) {
  const wire::LeaseGrant& grant = job.folder.grant;
  job.owes = true;
  if (guard_) {
    try {
      guard_->close(grant.lease);
    } catch (const std::exception& error) { options_.log(error.what()); }
  }
  tell_end(job);
  wire::ScrubReceipt receipt{
      .device = grant.slices.front().device, .lease = grant.lease, .tenant = grant.tenant, .at = wall_time()};
  receipt.method = "later: its tenant uses the device alone";
  receipt.deferred = true;
  job.receipts.scrubs = {receipt};
  job.folder.page().last_sequence = send_surely(job.receipts);
}

// One wipe for all that is owed there, as much as those who run left free.
void Agent::pay_wipes(const std::string& uuid) {
  const auto device = std::find_if(
      devices_.begin(), devices_.end(), [&](const Device& one) { return one.facts.uuid == uuid; });
  if (device == devices_.end()) return;
  std::vector<LeaseId> leases;
  std::int64_t owed = 0, taken = 0;
  for (auto& [lease, job] : jobs_) {
    if (!has_slice_of(job.folder.grant, uuid) || job.folder.page().settled != 0) continue;
    const std::int64_t bytes = job.folder.grant.slices.front().vram.count;
    if (job.owes && job.wiping == 0) {
      job.wiping = 1;
      leases.push_back(lease);
      owed += bytes;
    } else if (!job.settling && !job.fetching) {
      taken += bytes;
    }
  }
  if (leases.empty()) return;
  const Bytes most{std::max<std::int64_t>(std::min(owed, device->facts.vram.count - taken), 1 << 20)};
  chores_->add("wipe " + uuid, [this, facts = device->facts, most, leases] {
    auto test = scrubber_->test(facts, most);
    wire::ScrubReceipt receipt;
    scrubber_->scrub(facts, most, receipt);
    return Chores::After(
        [this, uuid = facts.uuid, leases, test, receipt] { paid(uuid, leases, test, receipt); });
  });
}

void Agent::paid(const std::string& uuid,
                 const std::vector<LeaseId>& leases,
                 const std::optional<wire::AcceptanceReceipt>& test,
                 const wire::ScrubReceipt& receipt) {
  wire::Receipts receipts;
  for (const LeaseId lease : leases) {
    Job* job = job_of(lease);
    if (job == nullptr) continue;
    const LeasePage& page = job->folder.page();
    wire::ScrubReceipt& mine = receipts.scrubs.emplace_back(receipt);
    mine.device = job->folder.grant.slices.front().device;
    mine.lease = lease;
    mine.tenant = job->folder.grant.tenant;
    mine.at = wall_time();
    mine.processes_ended = page.processes_ended;
    mine.scratch_wiped = page.scratch_wiped != 0;
    if (test) {
      wire::AcceptanceReceipt& tested = receipts.acceptances.emplace_back(*test);
      tested.device = mine.device;
      tested.lease = lease;
    }
    if (wire::is_clean(receipt) && guard_ && home_->has_guard()) {
      try {
        guard_->scrubbed(job->physical.front());
      } catch (const std::exception& error) { options_.log(error.what()); }
    }
  }
  for (const LeaseId lease : leases) {
    Job* job = job_of(lease);
    if (job == nullptr) continue;
    job->wiping = 0;
    if (wire::is_clean(receipt))
      job->owes = false;  // Else it is still owed: the server takes the device out.
  }
  answer_settlement(uuid, receipts);
  const std::uint64_t sequence = send_surely(receipts);
  for (const LeaseId lease : leases) {
    Job* job = job_of(lease);
    if (job == nullptr) continue;
    job->folder.page().last_sequence = sequence;
    if (!job->owes) close_books(*job);
  }
}

// Somebody else waits for a part of the device, and gets it only when nothing is owed there any more.
void Agent::settle_debts(const wire::DeviceOrder& order) {
  settlements_[order.uuid] = order;
  const bool owed = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    return entry.second.owes && has_slice_of(entry.second.folder.grant, order.uuid);
  });
  if (owed) return pay_wipes(order.uuid);
  wire::Receipts receipts;
  answer_settlement(order.uuid, receipts);
  send_surely(receipts);
}

void Agent::answer_settlement(const std::string& uuid, wire::Receipts& receipts) {
  const auto order = settlements_.extract(uuid);
  if (order.empty()) return;
  receipts.outcomes.push_back({.order = order.mapped().order,
                               .device = order.mapped().device,
                               .task = order.mapped().task,
                               .done = true});
}

bool Agent::is_owed_by_others(const std::string& uuid, PartyId tenant) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const wire::LeaseGrant& grant = entry.second.folder.grant;
    return entry.second.owes && grant.tenant != tenant && has_slice_of(grant, uuid);
  });
}

// Nobody starts where another tenant's wipe is owed, or where what is owed is being wiped.
bool Agent::waits_for_wipe(Job& job, const SandboxPlan& plan) {
  const wire::LeaseGrant& grant = job.folder.grant;
  for (const wire::SliceGrant& slice : grant.slices) {
    const bool being_wiped = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
      const Job& other = entry.second;
      return other.owes && other.wiping != 0 && has_slice_of(other.folder.grant, slice.uuid);
    });
    if (!being_wiped && !is_owed_by_others(slice.uuid, grant.tenant)) continue;
    job.fetching = true;
    pay_wipes(slice.uuid);
    chores_->add("wipe " + slice.uuid,  // Behind it, in the same lane.
                 [this, lease = grant.lease, uuid = slice.uuid, plan] {
                   return Chores::After([this, lease, uuid, plan] { start_on_clean(lease, uuid, plan); });
                 });
    return true;
  }
  return false;
}

void Agent::start_on_clean(LeaseId lease, const std::string& uuid, const SandboxPlan& plan) {
  Job* job = job_of(lease);
  if (job == nullptr || !is_owed_by_others(uuid, job->folder.grant.tenant)) return fetched(lease, plan, {});
  if (!std::exchange(job->fetching, false)) return;
  end_before_start(
      *job, wire::EndReason::kDeviceFault, "what was left on its device by others could not be wiped");
}

}  // namespace tranche::agent
