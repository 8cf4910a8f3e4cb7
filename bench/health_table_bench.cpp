// SPDX-License-Identifier: Apache-2.0
// Every row of the signal table x how the device is shared x what its job is doing, through the engine: the
// device's next state, the job's verdict and its bill against what the reference says, written down here
// independently of the code. And how long a signal takes to keep new work away.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "bench/bench.hpp"
#include "engine/device_life.hpp"
#include "engine/market_world.hpp"
#include "wire/health_codes.hpp"

namespace tranche::bench {
namespace {

using namespace engine;
using std::chrono::hours;
using std::chrono::minutes;

enum class Sharing { kDedicated, kPartition, kMps, kTimeSliced };
enum class Phase { kIdle, kRunning, kDraining, kCheckpointing };

// What must become of a device whose jobs are still there, of one that is free, and of its jobs.
enum class Fate { kKept, kInterrupted };
struct Expected {
  DeviceState busy = DeviceState::kHealthy;
  DeviceState idle = DeviceState::kHealthy;
  Fate jobs = Fate::kKept;
  bool credited = false;
};

constexpr Expected kNothing{};
constexpr Expected kWatched{DeviceState::kSuspect, DeviceState::kSuspect};
constexpr Expected kTested{DeviceState::kSuspect, DeviceState::kScrubbing};
constexpr Expected kReset{DeviceState::kDraining, DeviceState::kResetting, Fate::kInterrupted, true};
constexpr Expected kResetLater{DeviceState::kHealthy, DeviceState::kResetting};
constexpr Expected kOut{DeviceState::kDraining, DeviceState::kQuarantined, Fate::kInterrupted, true};
constexpr Expected kOutLater{DeviceState::kDraining, DeviceState::kQuarantined};
constexpr Expected kMended{DeviceState::kDraining, DeviceState::kInRepair, Fate::kInterrupted, true};
constexpr Expected kGone{DeviceState::kLost, DeviceState::kLost, Fate::kInterrupted, true};

struct Case {
  std::string source{};
  std::int64_t code = 0;
  std::int64_t value = 0;
  Expected expected{};
};

std::vector<Case> cases() {
  std::vector<Case> out;
  const auto xid = [&](std::initializer_list<std::int64_t> codes, const Expected& expected) {
    for (const std::int64_t code : codes) out.push_back({"xid", code, 0, expected});
  };
  xid({13, 31, 32, 39, 40, 41, 43, 60, 68, 69, 70,  71,  72,  75,  76,  77,  80, 82,
       83, 84, 85, 86, 88, 89, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 139},
      kNothing);
  xid({37, 38, 44, 66, 67, 93, 106, 107, 121, 137, 141, 157, 160, 161}, kNothing);
  xid({46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158}, kReset);
  xid({94}, {DeviceState::kHealthy, DeviceState::kResetting, Fate::kInterrupted, true});
  xid({63}, kResetLater);
  xid({79, 151}, kOut);
  xid({74, 144, 145, 146, 147, 148, 149, 150}, kWatched);  // Jobs of one device stay.
  xid({92}, kTested);
  xid({54}, kMended);
  xid({45, 4242}, kWatched);
  for (const auto& [value, expected] : std::map<std::int64_t, Expected>{
           {0, kNothing}, {1, kReset}, {2, kOut}, {3, kWatched}, {4, kReset}, {9, kWatched}})
    out.push_back({"xid", 154, value, expected});
  using namespace wire;
  out.push_back({"ecc", kEccUncorrected, 1, kReset});
  out.push_back({"ecc", kEccCorrectedRate, 1, kTested});
  out.push_back({"ecc", kEccRemapPending, 1, kResetLater});
  out.push_back({"ecc", kEccRemapFailed, 1, kReset});
  out.push_back({"ecc", kEccOff, 1, kNothing});
  out.push_back({"link", kLinkWidth, 8, kWatched});
  out.push_back({"link", kLinkDown, 1, kWatched});
  out.push_back({"thermal", kThermalSlowdown, 1, kWatched});
  out.push_back({"thermal", kPowerBrake, 1, kWatched});
  out.push_back({"telemetry", kDeviceLost, 0, kOut});
  out.push_back({"telemetry", kDeviceSilent, 0, kGone});
  out.push_back({"telemetry", kDeviceBack, 0, kTested});
  out.push_back(
      {"test", kTestFailed, 0, {DeviceState::kDraining, DeviceState::kQuarantined, Fate::kInterrupted}});
  out.push_back({"test", kTestCannotRun, 0, kTested});
  out.push_back({"test",
                 kScrubNotVerified,
                 0,
                 {DeviceState::kDraining, DeviceState::kQuarantined, Fate::kInterrupted}});
  out.push_back({"test", kStraggler, 0, kWatched});
  return out;
}

struct Bed : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId node{};
  DeviceId device{};
  std::vector<LeaseId> leases{};
  Instant began{};

  Bed() {
    const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(2)}}};
    TRANCHE_CHECK(run(SetPriceList{list}, root).has_value());
    TRANCHE_CHECK(run(TopUp{acme, units(1000), "", ""}, root).has_value());
    TokenHash invitation{};
    invitation[0] = 9;
    TRANCHE_CHECK(
        run(AddNode{.name = "gpu-01", .invitation = invitation, .expires_in = hours(1)}, root).has_value());
    TRANCHE_CHECK(run(JoinNode{"gpu-01", invitation}).has_value());
    node = state.index.nodes_by_name.at("gpu-01");
    wire::Hello said = hello("gpu-01", 2, "H100-SXM5-80GB");
    for (wire::DeviceFacts& facts : said.devices) {
      facts.vendor = wire::GpuVendor::kNvidia;
      facts.profiles = {{"1g.10gb", 1, 1, 0x7F, 7, gigabytes(10)}, {"7g.80gb", 7, 8, 1, 1, gigabytes(80)}};
    }
    TRANCHE_CHECK(run(ReportNode{node, said}).has_value());
    TRANCHE_CHECK(accept(node).has_value());
    device = state.nodes.at(node).devices.front();
  }

  void start(Sharing sharing) {
    Ask ask = gpus(1);
    int count = 1;
    if (sharing == Sharing::kDedicated) ask.isolation = Isolation::kDedicated;
    if (sharing == Sharing::kPartition) {
      ask.isolation = Isolation::kHard;
      ask.profile = "1g.10gb";
    }
    if (sharing == Sharing::kMps) {  // Two at once in one context.
      ask = gpus(1, 400);
      count = 2;
    }
    if (sharing == Sharing::kTimeSliced) ask = gpus(1, 600);
    for (int i = 0; i < count; ++i) {
      const JobId job = submit(ana, ask);
      TRANCHE_CHECK(schedule() == 1);
      leases.push_back(state.jobs.at(job).leases.front());
      TRANCHE_CHECK(report(leases.back(), LeaseState::kRunning).has_value());
    }
    device = state.leases.at(leases.front()).slices.front().device;
    began = clock;
  }
  void meter() {
    for (const LeaseId id : leases) {
      const Lease& lease = state.leases.at(id);
      if (!lease.live()) continue;
      TRANCHE_CHECK(run(ReportMeters{.node = node,
                                     .records = {{.lease = id,
                                                  .epoch = lease.epoch,
                                                  .sequence = lease.use.sequence + 1,
                                                  .device = lease.slices.front().device,
                                                  .from = began,
                                                  .to = clock}}})
                        .has_value());
    }
  }
  Decision signal(const Case& one, Instant at) {
    return run(NoteHealth{.node = node,
                          .signal = {.uuid = state.devices.at(device).facts.uuid,
                                     .source = one.source,
                                     .code = one.code,
                                     .value = one.value,
                                     .at = at}});
  }
};

bool is_as_expected(const Case& one, Sharing sharing, Phase phase) {
  Bed bed;
  if (phase == Phase::kIdle) {
    if (!bed.signal(one, bed.clock)) return false;
    return bed.state.devices.at(bed.device).state == one.expected.idle;
  }
  bed.start(sharing);
  const Instant fault = bed.clock + minutes(15);
  bed.clock += minutes(30);
  bed.meter();
  if (phase == Phase::kDraining && !bed.signal({"xid", 48, 0, {}}, fault)) return false;
  if (phase == Phase::kCheckpointing &&
      !bed.run(StopJob{bed.state.leases.at(bed.leases.front()).job}, bed.ana))
    return false;
  if (!bed.signal(one, fault)) return false;
  const DeviceState state = bed.state.devices.at(bed.device).state;
  const bool drained = phase == Phase::kDraining;
  DeviceState wanted = one.expected.busy;
  if (drained && wanted != DeviceState::kLost) wanted = DeviceState::kDraining;
  // A removed process that we asked to end ourselves says nothing of the device.
  if (one.code == 45 && phase == Phase::kCheckpointing) wanted = DeviceState::kHealthy;
  if (state != wanted) return false;
  const bool hit = drained || one.expected.jobs == Fate::kInterrupted;
  for (const LeaseId id : bed.leases) {  // All co-clients alike.
    const Lease& lease = bed.state.leases.at(id);
    if (hit && !(lease.revoked && is_platform_fault(lease.revoke_reason))) return false;
    const bool asked = phase == Phase::kCheckpointing && id == bed.leases.front();
    if (!hit && lease.revoked != asked) return false;
  }
  if (!hit) return true;
  for (const LeaseId id : bed.leases) {
    if (!bed.report(id, LeaseState::kEnded, EndReason::kExited, 143)) return false;
    const Job& job = bed.state.jobs.at(bed.state.leases.at(id).job);
    const bool stopped = phase == Phase::kCheckpointing && id == bed.leases.front();
    if (job.state != (stopped ? JobState::kStopped : JobState::kPending)) return false;
    const bool credit = drained || one.expected.credited;
    if ((job.credited > Money{}) != credit) return false;
  }
  return true;
}

}  // namespace

std::vector<Row> health_table_rows() {
  double all = 0, good = 0, worst = 0;
  for (const Case& one : cases()) {
    for (const Sharing sharing :
         {Sharing::kDedicated, Sharing::kPartition, Sharing::kMps, Sharing::kTimeSliced}) {
      for (const Phase phase : {Phase::kIdle, Phase::kRunning, Phase::kDraining, Phase::kCheckpointing}) {
        ++all;
        if (is_as_expected(one, sharing, phase)) {
          ++good;
        } else {
          std::fprintf(stderr,
                       "not as expected: %s %lld value %lld, sharing %d, phase %d\n",
                       one.source.c_str(),
                       static_cast<long long>(one.code),
                       static_cast<long long>(one.value),
                       static_cast<int>(sharing),
                       static_cast<int>(phase));
        }
      }
    }
  }
  for (int i = 0; i < 200; ++i) {  // In the engine alone; the journal and the link come on top.
    Bed bed;
    bed.start(Sharing::kMps);
    const auto from = std::chrono::steady_clock::now();
    if (!bed.signal({"xid", 48, 0, {}}, bed.clock)) return {};
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    worst = std::max(worst, took);
  }
  return {{.what = "signal table x {dedicated, partition, MPS, time-sliced} x {idle, running, draining, "
                   "checkpointing}: action, verdict and bill as expected (of " +
                   std::to_string(static_cast<int>(all)) + ")",
           .value = 100 * good / all,
           .unit = "%",
           .goal = 100},
          {.what = "signal decided, worst of 200 (engine alone)",
           .value = worst * 1e3,
           .unit = "ms",
           .goal = 2000,
           .better = Better::kLower}};
}

}  // namespace tranche::bench
