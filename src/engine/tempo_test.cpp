// SPDX-License-Identifier: Apache-2.0
#include "engine/tempo.hpp"

#include <doctest/doctest.h>

#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

Ask share(Duration time, std::uint32_t milli = 250) {
  Ask ask = gpus(1, milli);
  ask.time = time;
  return ask;
}

struct Floor : World {
  PartyId ana = user(create(PartyKind::kTenant, kPlatform, "acme"), "ana");

  JobId begin(const Ask& ask) {
    const JobId id = submit(ana, ask);
    schedule();
    REQUIRE(state.jobs.at(id).leases.size() == 1);
    return id;
  }
  void end(JobId id) {
    const LeaseId lease = state.jobs.at(id).leases.front();
    REQUIRE(report(lease, LeaseState::kRunning));
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited));
    REQUIRE(scrub(lease));
  }
  Tempo tempo(Duration time) { return tempo_of(state, state.jobs.at(submit(ana, share(time)))); }
  [[nodiscard]] DeviceId device_of(JobId id) const {
    return state.leases.at(state.jobs.at(id).leases.front()).slices.front().device;
  }
};

TEST_CASE("tempo: by its time limit while nothing is known of such work") {
  Floor floor;
  CHECK(floor.tempo(0s) == Tempo::kEither);
  CHECK(floor.tempo(30min) == Tempo::kShort);
  CHECK(floor.tempo(31min) == Tempo::kEither);
  CHECK(floor.tempo(239min) == Tempo::kEither);
  CHECK(floor.tempo(4h) == Tempo::kLong);
}

TEST_CASE("tempo: by what such work usually takes, once some has ended, and never beyond its limit") {
  Floor floor;
  floor.node("a", 1);
  const JobId first = floor.begin(share(24h));
  CHECK(tempo_of(floor.state, floor.state.jobs.at(first)) == Tempo::kLong);
  floor.clock += 6h;
  floor.end(first);
  CHECK(floor.tempo(0s) == Tempo::kLong);
  CHECK(floor.tempo(10min) == Tempo::kShort);
  Ask other = share(24h);
  other.kind = wire::WorkloadKind::kRender;
  const JobId brief = floor.begin(other);
  floor.clock += 5min;
  floor.end(brief);
  CHECK(tempo_of(floor.state, floor.state.jobs.at(floor.submit(floor.ana, other))) == Tempo::kShort);
}

TEST_CASE("tempo: short and long work clash on a device, and what is neither clashes with nothing") {
  Floor floor;
  floor.node("a", 1);
  const DeviceId device = floor.device_of(floor.begin(share(1h)));
  CHECK_FALSE(clashes(floor.state, Tempo::kShort, device));
  const JobId stays = floor.begin(share(8h));
  CHECK(clashes(floor.state, Tempo::kShort, device));
  CHECK_FALSE(clashes(floor.state, Tempo::kLong, device));
  floor.end(stays);
  CHECK_FALSE(clashes(floor.state, Tempo::kShort, device));
}

TEST_CASE("tempo: a share goes beside its like, and beside the other where there is no other place") {
  Floor floor;
  floor.node("a", 2);
  const JobId stays = floor.begin(share(8h));
  const JobId passes = floor.begin(share(10min));
  CHECK(floor.device_of(passes) != floor.device_of(stays));
  CHECK(floor.device_of(floor.begin(share(9h))) == floor.device_of(stays));
  CHECK(floor.device_of(floor.begin(share(20min))) == floor.device_of(passes));
  // One device alone: better beside the other than not at all.
  Floor alone;
  alone.node("a", 1);
  CHECK(alone.device_of(alone.begin(share(8h))) == alone.device_of(alone.begin(share(10min))));
}

TEST_CASE("tempo: what starts in one pass is kept apart as well") {
  Floor floor;
  std::vector<JobId> passing, staying;
  for (int i = 0; i < 4; ++i) {
    staying.push_back(floor.submit(floor.ana, share(8h)));
    passing.push_back(floor.submit(floor.ana, share(10min)));
  }
  floor.node("a", 2);
  REQUIRE(floor.schedule() == 8);
  for (const JobId id : staying) CHECK(floor.device_of(id) == floor.device_of(staying.front()));
  for (const JobId id : passing) CHECK(floor.device_of(id) == floor.device_of(passing.front()));
  CHECK(floor.device_of(passing.front()) != floor.device_of(staying.front()));
}

}  // namespace
}  // namespace tranche::engine
