// SPDX-License-Identifier: Apache-2.0
#pragma once
// One of each event about workloads, for the golden file.
#include "engine/event.hpp"

namespace tranche::engine {

inline Events work_samples() {
  const PartyId ana = PartyId::make(PartyKind::kUser, 5);
  const PartyId acme = PartyId::make(PartyKind::kTenant, 2);
  const Ask ask{
      .kind = wire::WorkloadKind::kRender, .instances = 1, .milli_each = 500, .vram_each = 1'000'000};
  const ServiceKey key{acme, "chat"};
  return {
      ProgressNoted{{7},
                    9,
                    {.lease = {8},
                     .epoch = 77,
                     .at = Instant(std::chrono::hours(4)),
                     .unit = WorkUnit::kStep,
                     .done = 120,
                     .total = 1000,
                     .metrics = "loss=0.41",
                     .verdicts = {{17, false, 3, 2000}}},
                    {9},
                    ana},
      GroupFormed{{9}, ana, WorkUnit::kFrame, {1, 240}, 10, 3, ask},
      JobWaits{{10}, ana, {{{9}, true}}},
      JobReleased{{10}, ana},
      ServiceSet{key, ana, 4, "{\"name\":\"chat\"}", {{"v1", ask, "{\"run\":\"serve\"}"}}},
      ServiceRemoved{key, ana},
      ReplicaAdded{key, ana, {11}, "v1"},
      ReplicaRetired{key, ana, {11}},
      ServiceUsed{key, ana, {100, 1, 2000, 3000}},
      ChunkFormed{{9}, {12}, ana, {{1, 16}, {20, 20}}, {11}},
      ChunkExtended{{9}, {12}, ana, {{21, 40}}, {13}},
      RecurringSet{{acme, "nightly"},
                   ana,
                   {ask, "{\"run\":\"train\"}", WorkUnit::kFrame, {1, 8}, 2, 3},
                   "weekdays 22:00",
                   "Europe/Madrid",
                   {Instant(std::chrono::hours(22)), Instant(std::chrono::hours(46))}},
      RecurringRemoved{{acme, "nightly"}, ana},
      RecurringRan{{acme, "nightly"}, ana, Instant(std::chrono::hours(22)), {13}, "no quota"},
      LevelSet{{acme, "gold"}, {{wire::WorkloadKind::kInference}, std::chrono::minutes(5), true, 995, 10}},
      LevelRemoved{{acme, "gold"}},
      LevelJudged{{acme, "gold"}, ana, {9}, true, std::chrono::seconds(7), {1500}},
      RecurringPlanned{{acme, "nightly"}, ana, {Instant(std::chrono::hours(70))}, 252'000},
      JobResized{{9}, ana, 4},
      SliceChangeAsked{{8}, ana, 250, 1 << 30, std::chrono::seconds(10), {9}, "others wait"},
      SliceChanged{{8}, ana, 250, 1 << 30, true, Instant(std::chrono::hours(5))},
      JobResliced{{9}, ana, 250, 1 << 30},
      LeaseParkAsked{{8}, ana, std::chrono::seconds(30), {9}, "its owner asked for it back"},
      LeaseReturned{{8}, ana},
      StartForetold{{9}, ana, std::chrono::minutes(5), std::chrono::minutes(50)},
      GuaranteeNoted{{acme, "firm"}, acme, 4000, 1000},
      JobPauseRequested{{9}, ana},
      JobPaused{{9}, ana},
      JobResumed{{9}, ana, Admission::kOnDemand, units(6), Instant(std::chrono::hours(6))}};
}

}  // namespace tranche::engine
