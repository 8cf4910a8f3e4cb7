// SPDX-License-Identifier: Apache-2.0
// Every state that can be reached is visited, with a witness of our own beside the code's: what was really
// tested and wiped since anybody had the device.
#include "policy/device_lifecycle.hpp"

#include <doctest/doctest.h>
#include <map>
#include <set>
#include <vector>

#include "wire/fields.hpp"

using namespace tranche;
using namespace tranche::policy;
using wire::DeviceState;

namespace {

using Events = wire::detail::EnumTable<LifecycleEvent>;

struct Witnessed {
  DeviceLife life{};
  bool tested = false;
  bool wiped = false;
  auto operator<=>(const Witnessed&) const = default;
};

// Knows nothing of the code's own flags: it only watches events, and forgets when the device leaves our
// hands.
Witnessed watch(const Witnessed& before, LifecycleEvent event, const DeviceLife& after) {
  Witnessed now{.life = after, .tested = before.tested, .wiped = before.wiped};
  const bool same_place = after.state == before.life.state;
  if (event == LifecycleEvent::kTestPassed) now.tested = true;
  if (event == LifecycleEvent::kScrubVerified) now.wiped = true;
  const bool enters_service = after.state == DeviceState::kHealthy || after.state == DeviceState::kProbation;
  if (!same_place && !enters_service) now.wiped = false;
  if (!same_place && after.state != DeviceState::kScrubbing && !enters_service) now.tested = false;
  return now;
}

struct Edge {
  Witnessed from{};
  LifecycleEvent event{};
  Witnessed to{};
};

std::vector<Edge> all_edges() {
  std::set<Witnessed> seen{Witnessed{}};
  std::vector<Witnessed> open{Witnessed{}};
  std::vector<Edge> edges;
  while (!open.empty()) {
    const Witnessed at = open.back();
    open.pop_back();
    for (const LifecycleEvent event : Events::kValues) {
      const auto after = advance(at.life, event);
      if (!after) continue;
      const Witnessed to = watch(at, event, *after);
      edges.push_back({at, event, to});
      if (seen.insert(to).second) open.push_back(to);
    }
  }
  return edges;
}

}  // namespace

TEST_CASE("there is no way to healthy around a test or a scrub") {
  std::size_t doors = 0;
  for (const Edge& edge : all_edges()) {
    const bool enters =
        edge.to.life.state == DeviceState::kHealthy || edge.to.life.state == DeviceState::kProbation;
    if (!enters || edge.from.life.state == edge.to.life.state) continue;
    ++doors;
    CHECK(edge.from.life.state == DeviceState::kScrubbing);
    CHECK(edge.to.tested);
    CHECK(edge.to.wiped);
  }
  CHECK(doors > 0);
}

// A whole device that changes hands: from the moment its tenant left, nothing but a verified wipe opens the
// door.
TEST_CASE("a device that its tenant left comes back by a wipe alone, or not at all") {
  std::size_t left = 0;
  const auto edges = all_edges();
  for (const Edge& edge : edges) {
    const bool served =
        edge.from.life.state == DeviceState::kHealthy || edge.from.life.state == DeviceState::kProbation;
    if (edge.event != LifecycleEvent::kTenantLeft || !served) continue;
    ++left;
    CHECK(edge.to.life.state == DeviceState::kScrubbing);
    CHECK(placeable(edge.to.life.state) == Placeable::kNo);
    CHECK_FALSE(edge.to.wiped);
    // Every order of events that leaves the wipe out, from there on.
    std::set<DeviceLife> seen{edge.to.life};
    std::vector<DeviceLife> open{edge.to.life};
    while (!open.empty()) {
      const DeviceLife at = open.back();
      open.pop_back();
      CHECK(placeable(at.state) == Placeable::kNo);
      for (const LifecycleEvent event : Events::kValues) {
        if (event == LifecycleEvent::kScrubVerified) continue;
        const auto after = advance(at, event);
        if (after && seen.insert(*after).second) open.push_back(*after);
      }
    }
  }
  CHECK(left > 0);
}

TEST_CASE("every state can be reached, and only the retired are stuck") {
  const auto edges = all_edges();
  std::set<DeviceState> reached;
  std::map<DeviceState, std::set<DeviceState>> back;
  for (const Edge& edge : edges) {
    reached.insert(edge.to.life.state);
    back[edge.to.life.state].insert(edge.from.life.state);
  }
  reached.insert(DeviceState::kNew);
  CHECK(reached.size() == wire::detail::EnumTable<DeviceState>::kCount);
  std::set<DeviceState> can_heal{DeviceState::kHealthy};
  for (bool grew = true; grew;) {
    grew = false;
    for (const DeviceState state : std::set<DeviceState>(can_heal)) {
      for (const DeviceState before : back[state]) grew |= can_heal.insert(before).second;
    }
  }
  CHECK(can_heal.size() == reached.size() - 1);
  CHECK_FALSE(can_heal.contains(DeviceState::kRetired));
}

TEST_CASE("an agent may fall silent in every state with an agent behind it") {
  for (const Edge& edge : all_edges()) {
    if (edge.event != LifecycleEvent::kAgentSilent) continue;
    CHECK(edge.to.life.state == DeviceState::kLost);
    CHECK(placeable(edge.to.life.state) == Placeable::kNo);
  }
  for (const DeviceState state : wire::detail::EnumTable<DeviceState>::kValues) {
    const bool silent_already =
        state == DeviceState::kRetired || state == DeviceState::kLost || state == DeviceState::kInRepair;
    CHECK(advance({.state = state}, LifecycleEvent::kAgentSilent).has_value() != silent_already);
  }
}

TEST_CASE("a device is reset at most twice before it goes to repair") {
  DeviceLife life{.state = DeviceState::kQuarantined};
  for (int i = 0; i < 2; ++i) {
    life = advance(life, LifecycleEvent::kResetOrdered).value();
    life = advance(life, LifecycleEvent::kResetFailed).value();
  }
  CHECK(life.state == DeviceState::kInRepair);
  CHECK(advance({.state = DeviceState::kQuarantined, .resets = 2}, LifecycleEvent::kResetOrdered).error() ==
        "a device that is quarantined cannot have reset_ordered");
}

TEST_CASE("only healthy devices take everybody, and those on probation take what may be stopped") {
  for (const DeviceState state : wire::detail::EnumTable<DeviceState>::kValues) {
    CHECK((placeable(state) == Placeable::kYes) == (state == DeviceState::kHealthy));
    CHECK((placeable(state) == Placeable::kPreemptible) == (state == DeviceState::kProbation));
  }
}
