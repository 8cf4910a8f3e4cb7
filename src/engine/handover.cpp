// SPDX-License-Identifier: Apache-2.0
#include "engine/handover.hpp"

#include <algorithm>

#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "engine/device_life.hpp"
#include "engine/health_steps.hpp"

namespace tranche::engine {
namespace {

using policy::LifecycleEvent;

// Its next step is the hand-over. Whatever else it waits for leads through a wipe of its own.
bool changes_hands(const Device& device) {
  return takes_work(device.state) && device.record.when_idle == WhenIdle::kNothing;
}

bool asks_for_whole(const State& state, const Ask& ask, PartyId tenant, policy::NodeIndex group) {
  const Capacity& capacity = *state.index.capacity;
  const auto shape = capacity.shape_of(ask, trust_group(state, tenant));
  return shape && shape->whole() && capacity.fleet().type_allows(capacity.fleet().spec(group), *shape);
}

bool same_tenant_waits(const State& state, const Lease& lease, Instant at) {
  const Capacity& capacity = *state.index.capacity;
  const policy::NodeIndex group = capacity.group_of(lease.slices.front().device);
  for (const auto& [key, jobs] : capacity.waiting()) {
    if (key.tenant != lease.tenant || key.kind == kNoKind || jobs.empty()) continue;
    const Job& first = state.jobs.at(*jobs.begin());  // All of a kind ask for the same.
    if (!asks_for_whole(state, first.ask, lease.tenant, group)) continue;
    const auto ready = [&](JobId id) { return state.jobs.at(id).not_before <= at; };
    if (std::any_of(jobs.begin(), jobs.end(), ready)) return true;
  }
  return false;
}

void wipe(const State& state, const Device& device, LeaseId lease, Events& events) {
  DeviceSteps steps(state, device);
  if (steps.advance(LifecycleEvent::kTenantLeft, {.reason = "its tenant left"}, events))
    steps.order_wipe(lease, events);
}

// Wiped, and tested beside it. Agents before 0.2 bring no test: a wipe writes and reads every byte of the
// device by its own kernels, and has to stand for it.
void through_the_door(DeviceSteps& steps, const wire::AcceptanceReceipt* test, Events& events) {
  const Cause tested = test == nullptr ? Cause{.reason = "wiped and read back"}
                                       : Cause{.reason = "wiped, read back and tested: " + finding_of(*test),
                                               .table_version = test->table_version};
  steps.advance(LifecycleEvent::kScrubVerified, {.reason = "wiped and read back"}, events);
  steps.advance(LifecycleEvent::kTestPassed, tested, events);
}

const wire::AcceptanceReceipt* test_after(const wire::Receipts& receipts, DeviceId device, LeaseId lease) {
  for (const wire::AcceptanceReceipt& one : receipts.acceptances)
    if (one.device == device && one.lease == lease && lease != LeaseId{}) return &one;
  return nullptr;
}

// Whether somebody of another tenant waits for a part of a device, and may share with this one.
bool another_waits(const State& state, PartyId debtor, const std::set<JobId>& placed) {
  const Capacity& capacity = *state.index.capacity;
  const std::uint32_t group = trust_group(state, debtor);
  for (const auto& [key, jobs] : capacity.waiting()) {
    if (key.tenant == debtor || key.kind == kNoKind || trust_group(state, key.tenant) != group) continue;
    const auto left = std::find_if(jobs.begin(), jobs.end(), [&](JobId id) { return !placed.contains(id); });
    if (left == jobs.end()) continue;
    const auto shape = capacity.shape_of(state.jobs.at(*left).ask, group);
    if (shape && shape->shares()) return true;
  }
  return false;
}

}  // namespace

bool has_whole_devices(const State& state, const Lease& lease) {
  const Job* job = state.job(lease.job);
  if (job == nullptr || !job->ask.profile.empty() || lease.slices.empty()) return false;
  return std::all_of(lease.slices.begin(), lease.slices.end(), [](const Slice& slice) {
    return slice.milli == policy::kDeviceMilli;
  });
}

void append_handover(
    const State& state, const Envelope& envelope, const Lease& lease, LeaseState how, Events& events) {
  // A refused lease never touched its devices.
  if (how == LeaseState::kRefused || !has_whole_devices(state, lease)) return;
  const bool all = std::all_of(lease.slices.begin(), lease.slices.end(), [&](const Slice& slice) {
    return changes_hands(state.devices.at(slice.device));
  });
  const Job* promised = state.job(lease.promised_to);  // Whose its end is.
  const bool stays = promised == nullptr || tenant_of(state, promised->owner) == lease.tenant;
  const bool kept = all && stays && !lease.scrubbed && same_tenant_waits(state, lease, envelope.at);
  events.emplace_back(DevicesLeft{lease.id, lease.tenant, kept});
  if (kept) return;
  for (const Slice& slice : lease.slices) {
    const Device& device = state.devices.at(slice.device);
    if (!changes_hands(device)) continue;
    if (!lease.scrubbed) {
      wipe(state, device, lease.id, events);
      continue;
    }
    DeviceSteps steps(state, device);  // Its node wiped it before it said so.
    if (steps.advance(LifecycleEvent::kTenantLeft, {.reason = "its tenant left"}, events))
      through_the_door(steps, nullptr, events);
  }
}

void apply(State& state, const Envelope& envelope, const DevicesLeft& event) {
  Lease& lease = state.leases.at(event.lease);
  tally(state, lease, envelope.at);
  const bool held = lease.holds_slices();
  lease.left = true;
  lease.kept = event.kept;
  const Job* job = state.job(lease.job);
  if (held && job != nullptr) release_slices(state, lease, job->ask);
  for (const Slice& slice : lease.slices) {
    Device& device = state.devices.at(slice.device);
    device.record.kept_for = event.kept ? event.tenant : PartyId{};
    state.index.capacity->refresh_device(state, device);
    device.record.left_by = lease.id;
  }
}

void append_unclaimed(const State& state, Events& events) {
  const std::size_t decided = events.size();
  for (const DeviceId id : state.index.capacity->kept()) {
    const bool taken = std::any_of(
        events.begin(), events.begin() + static_cast<std::ptrdiff_t>(decided), [&](const Event& event) {
          const auto* granted = std::get_if<LeaseGranted>(&event);
          return granted != nullptr && std::any_of(granted->slices.begin(),
                                                   granted->slices.end(),
                                                   [&](const Slice& slice) { return slice.device == id; });
        });
    const Device& device = state.devices.at(id);
    if (!taken) wipe(state, device, device.record.left_by, events);
  }
}

void append_settlements(const State& state, Events& events) {
  const Capacity& capacity = *state.index.capacity;
  if (capacity.owed().empty()) return;
  std::set<JobId> placed;
  for (const Event& event : events)
    if (const auto* granted = std::get_if<LeaseGranted>(&event)) placed.insert(granted->job);
  for (const auto& [id, debtor] : capacity.owed()) {
    const Device& device = state.devices.at(id);
    if (device.record.order != 0 || !takes_work(device.state)) continue;
    if (debtor != PartyId{} && !another_waits(state, debtor, placed)) continue;
    DeviceSteps(state, device).order(DeviceTask::kSettle, TestLevel::kQuick, events);
  }
}

void append_wipe_steps(const State& state, const Node& node, const wire::Receipts& receipts, Events& events) {
  const auto fail = [&](const Device& device, const std::string& reason) {
    DeviceSteps steps(state, device);
    if (steps.advance(LifecycleEvent::kScrubFailed, {.reason = reason}, events))
      steps.open_repair(reason, events);
  };
  const auto awaited = [&](DeviceId id) -> const Device* {
    const Device* device = state.device(id);
    const bool waits = device != nullptr && device->node == node.id &&
                       device->state == DeviceState::kScrubbing && device->record.left_by != LeaseId{};
    return waits ? device : nullptr;
  };
  for (const wire::ScrubReceipt& scrub : receipts.scrubs) {
    const Device* device = awaited(scrub.device);
    if (device == nullptr || scrub.lease != device->record.left_by) continue;
    if (scrub.nonzero_bytes != 0) {
      fail(*device, std::to_string(scrub.nonzero_bytes) + " bytes were left after a wipe");
    } else if (!wire::is_clean(scrub)) {
      fail(*device, "its memory could not be wiped: " + scrub.method);
    } else {
      DeviceSteps steps(state, *device);
      const wire::AcceptanceReceipt* test = test_after(receipts, scrub.device, scrub.lease);
      if (test != nullptr && test->verdict == wire::Verdict::kCritical)
        fail(*device, "it failed the test between two tenants: " + finding_of(*test));
      else if (test != nullptr && !ran(*test))  // It is tried once more, by itself.
        steps.order(DeviceTask::kAccept, TestLevel::kQuick, events);
      else
        through_the_door(steps, test, events);
    }
  }
  for (const wire::DeviceOutcome& outcome : receipts.outcomes) {
    const Device* device = awaited(outcome.device);
    if (device == nullptr || outcome.task != DeviceTask::kWipe || device->record.order != outcome.order)
      continue;
    const bool told = std::any_of(receipts.scrubs.begin(), receipts.scrubs.end(), [&](const auto& scrub) {
      return scrub.device == device->id;
    });
    if (!told) fail(*device, "its memory could not be wiped: " + outcome.message);
  }
}

}  // namespace tranche::engine
