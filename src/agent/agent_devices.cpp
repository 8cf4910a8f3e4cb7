// SPDX-License-Identifier: Apache-2.0
// Devices outside of any lease: what the server asks for, and what came of it.
#include <algorithm>

#include "agent/agent_send.hpp"
#include "wire/codec.hpp"

namespace tranche::agent {

// Behind what is being wiped there: a device in use cannot be reset, and a wipe that was broken proves
// nothing.
void Agent::reset_after_wipes(const wire::DeviceOrder& order) {
  if (!wipes_.insert(order.order).second) return;  // Told again after a break of the link.
  chores_->add("wipe " + order.uuid, [this, order] {
    if (scrubber_) scrubber_->release(order.uuid);
    return Chores::After([this, order] {
      wipes_.erase(order.order);
      wire::DeviceOutcome outcome{.order = order.order, .device = order.device, .task = order.task};
      for (const Device& device : devices_) {
        if (device.facts.uuid != order.uuid) continue;
        const auto reset = device.port->reset(order.uuid);
        outcome.done = reset.has_value();
        if (!reset) outcome.message = reset.error();
      }
      wire::Receipts receipts;
      receipts.outcomes.push_back(std::move(outcome));
      send_surely(receipts);
    });
  });
}

void Agent::take_order(const wire::DeviceOrder& order) {
  wire::Receipts receipts;
  wire::DeviceOutcome outcome{.order = order.order, .device = order.device, .task = order.task};
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const Device& device) {
    return device.facts.uuid == order.uuid;
  });
  if (found == devices_.end()) {
    outcome.message = "this node has no device " + order.uuid;
  } else if (order.task == wire::DeviceTask::kReset) {
    return reset_after_wipes(order);
  } else if (order.task == wire::DeviceTask::kWipe) {
    return wipe_device(order, found->facts, static_cast<std::uint32_t>(found - devices_.begin()));
  } else if (order.task == wire::DeviceTask::kSettle) {
    return settle_debts(order);
  } else if (options_.simulated) {
    outcome.done = true;
    receipts.acceptances.push_back({.device = order.device,
                                    .level = order.level,
                                    .verdict = wire::Verdict::kPass,
                                    .at = wall_time(),
                                    .table_version = "SIMULATED",
                                    .tests = {{.name = "simulated",
                                               .verdict = wire::Verdict::kPass,
                                               .detail = "SIMULATED: nothing was tested"}}});
    receipts.scrubs.push_back({.device = order.device,
                               .at = wall_time(),
                               .zeroed = found->facts.vram,
                               .verified = found->facts.vram,
                               .method = "SIMULATED"});
  } else {
    orders_->begin(order, found->facts);
    return;
  }
  receipts.outcomes.push_back(std::move(outcome));
  send_surely(receipts);
}

// Between heartbeats too: nobody new may be placed on a device that has just failed.
void Agent::tell_signals(BootTime now) {
  if (!welcomed_ || now < signals_next_) return;
  signals_next_ = now + nanoseconds(std::min<Duration>(heartbeat_, std::chrono::milliseconds(500)));
  for (const auto& port : ports_)
    for (const wire::HealthSignal& signal : port->signals()) send_surely(signal);
}

// With each heartbeat while tests run: people wait for them.
void Agent::tell_tests() {
  const wire::TestsUnderWay now = orders_->progress();
  if (now.items.empty() && tests_told_.items.empty()) return;
  tests_told_ = now;
  send_now(
      wire::LogChunk{.stream = wire::LogStream::kPlatform, .at = wall_time(), .bytes = wire::to_json(now)});
}

void Agent::send_order_answers() {
  for (const wire::Receipts& answer : orders_->take_answers()) send_surely(answer);
}

}  // namespace tranche::agent
