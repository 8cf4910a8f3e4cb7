// SPDX-License-Identifier: Apache-2.0
// Every state that can be reached is visited, with a witness of our own beside the code's: what was really
// tested and wiped since anybody had the device.
#include "policy/device_lifecycle.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "wire/fields.hpp"

using namespace tranche;
using namespace tranche::policy;
using wire::DeviceState;

namespace {

using Events = wire::detail::EnumTable<LifecycleEvent>;
using States = wire::detail::EnumTable<DeviceState>;
using Step = std::function<std::optional<DeviceLife>(const DeviceLife&, LifecycleEvent)>;

// Asked hundreds of thousands of times below, and a refusal is a sentence each time.
std::optional<DeviceLife> real_step(const DeviceLife& life, LifecycleEvent event) {
  static std::map<std::pair<DeviceLife, LifecycleEvent>, std::optional<DeviceLife>> known;
  const auto [at, fresh] = known.try_emplace({life, event});
  if (!fresh) return at->second;
  if (const auto after = advance(life, event)) at->second = *after;
  return at->second;
}

struct Witnessed {
  DeviceLife life{};
  bool tested = false;
  bool wiped = false;
  bool warned = false;  // By the last test.
  auto operator<=>(const Witnessed&) const = default;
};

bool serves(DeviceState state) {
  return state == DeviceState::kHealthy || state == DeviceState::kProbation;
}

// Knows nothing of the code's own flags: it only watches events, and forgets when the device leaves our
// hands.
Witnessed watch(const Witnessed& before, LifecycleEvent event, const DeviceLife& after) {
  Witnessed now{.life = after, .tested = before.tested, .wiped = before.wiped, .warned = before.warned};
  const bool same_place = after.state == before.life.state;
  const bool test = event == LifecycleEvent::kTestPassed || event == LifecycleEvent::kTestWarned;
  const bool scrubbed_then = before.life.state == DeviceState::kScrubbing;
  if (test) now.tested = true;
  if (test || !scrubbed_then)  // A later test of the same scrub does not take a warning back.
    now.warned = event == LifecycleEvent::kTestWarned || (scrubbed_then && before.warned);
  if (event == LifecycleEvent::kScrubVerified) now.wiped = true;
  if (!same_place && !serves(after.state)) now.wiped = false;
  if (!same_place && after.state != DeviceState::kScrubbing && !serves(after.state)) now.tested = false;
  return now;
}

struct Edge {
  Witnessed from{};
  LifecycleEvent event{};
  Witnessed to{};
};

std::vector<Edge> all_edges(const Step& step = real_step) {
  std::set<Witnessed> seen{Witnessed{}};
  std::vector<Witnessed> open{Witnessed{}};
  std::vector<Edge> edges;
  while (!open.empty()) {
    const Witnessed at = open.back();
    open.pop_back();
    for (const LifecycleEvent event : Events::kValues) {
      const auto after = step(at.life, event);
      if (!after) continue;
      const Witnessed to = watch(at, event, *after);
      edges.push_back({at, event, to});
      if (seen.insert(to).second) open.push_back(to);
    }
  }
  return edges;
}

// Ways into service that leave out the scrub, the test, or what the test said.
std::size_t ways_around(const std::vector<Edge>& edges) {
  return static_cast<std::size_t>(std::count_if(edges.begin(), edges.end(), [](const Edge& edge) {
    const DeviceState to = edge.to.life.state;
    if (!serves(to) || edge.from.life.state == to) return false;
    const bool warned = to == DeviceState::kHealthy && edge.to.warned;
    return edge.from.life.state != DeviceState::kScrubbing || !edge.to.tested || !edge.to.wiped || warned;
  }));
}

}  // namespace

TEST_CASE("there is no way to healthy around a test or a scrub") {
  const auto edges = all_edges();
  CHECK(ways_around(edges) == 0);
  const auto enters = [](const Edge& edge) {
    return serves(edge.to.life.state) && edge.from.life.state != edge.to.life.state;
  };
  CHECK(std::count_if(edges.begin(), edges.end(), enters) > 0);
}

// The search is worth something only if it sees what it is for: every edge that the code does not have, from
// whatever state by whatever event, straight into service.
TEST_CASE("an edge into service that leaves out a test or a scrub would be found, whichever it is") {
  std::size_t added = 0;
  for (const DeviceState from : States::kValues) {
    for (const LifecycleEvent event : Events::kValues) {
      for (const DeviceState to : {DeviceState::kHealthy, DeviceState::kProbation}) {
        bool new_edge = false;
        const auto edges = all_edges([&](const DeviceLife& life, LifecycleEvent one) {
          auto after = real_step(life, one);
          if (after || life.state != from || one != event || from == to) return after;
          new_edge = true;
          after = life;
          after->state = to;
          return after;
        });
        if (!new_edge) continue;
        ++added;
        CAPTURE(wire::name_of(from));
        CAPTURE(wire::name_of(event));
        CHECK(ways_around(edges) > 0);
      }
    }
  }
  CHECK(added > 300);
}

// And an edge of the code's own that forgets to look: the scrub alone, or the test alone, as the door.
TEST_CASE("a door that asks for half of it would be found") {
  for (const LifecycleEvent half :
       {LifecycleEvent::kScrubVerified, LifecycleEvent::kTestPassed, LifecycleEvent::kTestWarned}) {
    const auto edges = all_edges([&](const DeviceLife& life, LifecycleEvent event) {
      auto after = real_step(life, event);
      if (after && life.state == DeviceState::kScrubbing && event == half)
        after->state = DeviceState::kHealthy;
      return after;
    });
    CHECK(ways_around(edges) > 0);
  }
}

TEST_CASE("retired is the end, and only a device in repair comes there") {
  std::size_t retired = 0;
  for (const Edge& edge : all_edges()) {
    CHECK(edge.from.life.state != DeviceState::kRetired);
    if (edge.to.life.state != DeviceState::kRetired) continue;
    ++retired;
    CHECK(edge.from.life.state == DeviceState::kInRepair);
    CHECK(edge.event == LifecycleEvent::kRetired);
  }
  CHECK(retired > 0);
}

TEST_CASE("after maintenance a device is tested, and is healthy only if it was before") {
  const auto back = [](DeviceState before, LifecycleEvent test) {
    DeviceLife life{.state = before, .probation = before == DeviceState::kProbation};
    for (const LifecycleEvent event : {LifecycleEvent::kMaintenanceBegins,
                                       LifecycleEvent::kMaintenanceEnds,
                                       test,
                                       LifecycleEvent::kScrubVerified,
                                       test})
      life = advance(life, event).value();
    return life.state;
  };
  CHECK(back(DeviceState::kHealthy, LifecycleEvent::kTestPassed) == DeviceState::kHealthy);
  CHECK(back(DeviceState::kHealthy, LifecycleEvent::kTestWarned) == DeviceState::kProbation);
  CHECK(back(DeviceState::kSuspect, LifecycleEvent::kTestPassed) == DeviceState::kProbation);
  CHECK(back(DeviceState::kProbation, LifecycleEvent::kTestPassed) == DeviceState::kProbation);
  CHECK_FALSE(advance({.state = DeviceState::kMaintenance}, LifecycleEvent::kTestPassed));
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
  CHECK(reached.size() == States::kCount);
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
  for (const DeviceState state : States::kValues) {
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
  for (const DeviceState state : States::kValues) {
    CHECK((placeable(state) == Placeable::kYes) == (state == DeviceState::kHealthy));
    CHECK((placeable(state) == Placeable::kPreemptible) == (state == DeviceState::kProbation));
  }
}
