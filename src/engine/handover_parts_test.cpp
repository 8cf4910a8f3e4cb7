// SPDX-License-Identifier: Apache-2.0
// Parts of devices between tenants who share: random days, with a witness of its own. What a tenant left
// unwiped on a device is granted to nobody else before a clean receipt for that very lease, or for the whole
// device, was journaled.
#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

struct Sharers : World {
  std::vector<PartyId> people{};
  std::map<DeviceId, std::map<LeaseId, PartyId>> unwiped{};     // Ended, and no clean receipt for it yet.
  std::map<DeviceId, std::map<LeaseId, PartyId>> given_back{};  // Of those, what its tenant may use as it is.
  std::size_t granted = 0, waited = 0;
  Random random;

  explicit Sharers(std::uint64_t seed) : random(seed) {
    Quota quota;
    quota.share_soft = true;
    for (const char* name : {"acme", "beta", "core"}) {
      const PartyId tenant = create(PartyKind::kTenant, kPlatform, name);
      TRANCHE_CHECK(limit(tenant, quota).has_value());
      people.push_back(user(tenant, "one"));
    }
    node("gpu-01", 2);
    node("gpu-02", 1);
  }

  void watch(const Events& events) {
    for (const Event& event : events) {
      if (const auto* lease = std::get_if<LeaseGranted>(&event)) {
        ++granted;
        for (const Slice& slice : lease->slices) {
          for (const auto& [id, tenant] : given_back[slice.device]) {
            CAPTURE(text(id));
            CHECK(tenant == lease->tenant);
          }
          for (const auto& [id, tenant] : unwiped[slice.device]) waited += tenant != lease->tenant;
        }
      }
      if (const auto* said = std::get_if<LeaseReported>(&event);
          said != nullptr && is_over(said->report.state))
        for (const Slice& slice : state.leases.at(said->report.lease).slices)
          unwiped[slice.device][said->report.lease] = state.leases.at(said->report.lease).tenant;
      if (const auto* kept = std::get_if<ReceiptsKept>(&event))
        for (const wire::ScrubReceipt& scrub : kept->receipts.scrubs) take(scrub);
    }
  }
  void take(const wire::ScrubReceipt& scrub) {
    auto& left = unwiped[scrub.device];
    if (scrub.deferred && left.contains(scrub.lease))
      given_back[scrub.device][scrub.lease] = left.at(scrub.lease);
    if (!wire::is_clean(scrub)) return;
    const Lease* of = state.lease(scrub.lease);
    const bool whole = of == nullptr || of->slices.front().milli == 1000;  // All of the memory was wiped.
    if (whole) {
      left.clear();
      given_back[scrub.device].clear();
    }
    left.erase(scrub.lease);
    given_back[scrub.device].erase(scrub.lease);
  }

  // A node that does not look closely: alone among those who run on the device, its tenant gets the slice
  // back at once, and the wipe is owed, though somebody else's may be as well.
  Decision leave(LeaseId id) {
    const Lease& lease = state.leases.at(id);
    const DeviceId device = lease.slices.front().device;
    bool alone = true;
    for (const auto& [other_id, other] : state.leases)
      for (const Slice& slice : other.slices)
        if (slice.device == device && other.live() && other.tenant != lease.tenant) alone = false;
    if (!alone || random.below(3) == 0) return scrub(id);
    return run(KeepReceipts{.node = lease.node,
                            .receipts = {.scrubs = {{.device = device, .lease = id, .deferred = true}}}});
  }

  // What is owed is paid when the node is asked to.
  Decision answer(NodeId node) {
    for (const DeviceId id : state.nodes.at(node).devices) {
      const DeviceRecord& record = state.devices.at(id).record;
      if (record.order == 0 || record.task != DeviceTask::kSettle) continue;
      wire::Receipts receipts{.outcomes = {{record.order, id, record.task, true, ""}}};
      for (const LeaseId lease : record.owed)
        receipts.scrubs.push_back(
            {.device = id, .lease = lease, .zeroed = gigabytes(1), .verified = gigabytes(1)});
      return run(KeepReceipts{.node = node, .receipts = receipts});
    }
    return accept(node);
  }

  Decision step() {
    std::vector<LeaseId> live, left;
    for (const auto& [id, lease] : state.leases) {
      if (lease.live()) live.push_back(id);
      if (!lease.live() && lease.holds_slices()) left.push_back(id);
    }
    const PartyId person = people[random.below(people.size())];
    switch (random.below(7)) {
      case 0:
      case 1: {
        Ask ask =
            gpus(1, static_cast<std::uint32_t>(random.below(8) == 0 ? 1000 : 200 + 100 * random.below(4)));
        ask.preemptible = random.below(2) == 0;
        ask.priority = static_cast<std::uint8_t>(random.below(100));
        submit(person, ask);
        return Events{};
      }
      case 2:
        return run(
            BookWindows{
                .owner = person, .ask = gpus(1, 300), .windows = {{clock + minutes(2), clock + minutes(12)}}},
            person);
      case 3: {
        if (live.empty()) return Events{};
        const LeaseId id = live[random.below(live.size())];
        if (state.leases.at(id).started == Instant{}) return report(id, LeaseState::kRunning);
        return report(id, LeaseState::kEnded, EndReason::kExited);
      }
      case 4:
        return left.empty() ? Decision(Events{}) : leave(left[random.below(left.size())]);
      case 5:
        for (const auto& [device, debts] : given_back)
          if (!debts.empty() && random.below(2) == 0) return scrub(debts.begin()->first);
        return Events{};
      default:
        return answer(std::next(state.nodes.begin(), static_cast<int>(random.below(2)))->first);
    }
  }
};

}  // namespace

TEST_CASE("handover: whatever happens, what is owed a wipe is granted to nobody else before its receipt") {
  std::size_t granted = 0, waited = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Sharers world(seed);
    for (int step = 0; step < 300; ++step) {
      world.clock += seconds(static_cast<int>(world.random.below(30)));
      if (const Decision decision = world.step()) world.watch(*decision);
      while (schedule_due(world.state, world.clock)) {
        const auto pass = world.run(Schedule{});
        REQUIRE(pass);
        world.watch(*pass);
        if (pass->empty()) break;
      }
    }
    granted += world.granted;
    waited += world.waited;
    CHECK(encode_state(*decode_state(encode_state(world.state))) == encode_state(world.state));
  }
  CHECK(granted > 500);
  CHECK(waited > 0);  // Strangers are granted other parts of a device meanwhile: the scrub is a claim on the
                      // slice alone.
}

}  // namespace tranche::engine
