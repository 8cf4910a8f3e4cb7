// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every code of the health tables x how the device is shared x what its job is doing, through the engine: the
// device's next state, what is to become of it, the job's verdict and its bill, against what the reference
// says, written down here by hand and not taken from the tables. For tests and benchmarks.
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/attempt.hpp"
#include "engine/world.hpp"
#include "wire/fields.hpp"
#include "wire/health_codes.hpp"

namespace tranche::engine::health_matrix {

using policy::HealthAction;

enum class Sharing { kDedicated, kPartition, kMps, kTimeSliced };
enum class Phase { kIdle, kRunning, kDraining, kCheckpointing };
constexpr std::array kSharings{Sharing::kDedicated, Sharing::kPartition, Sharing::kMps, Sharing::kTimeSliced};
constexpr std::array kPhases{Phase::kIdle, Phase::kRunning, Phase::kDraining, Phase::kCheckpointing};

enum class Fate { kKept, kInterrupted };
enum class Bill { kCharged, kFromTheFault, kFromTheCheckpoint };
struct Expected {
  HealthAction action = HealthAction::kNote;
  DeviceState busy = DeviceState::kHealthy;  // With its jobs still there.
  DeviceState idle = DeviceState::kHealthy;
  WhenIdle later = WhenIdle::kNothing;  // What is due when its jobs are gone.
  Fate jobs = Fate::kKept;
  Bill bill = Bill::kCharged;
  bool node = false;   // Its neighbours go as well.
  bool alone = false;  // It is not shared any more.
};

inline Expected noted(HealthAction action = HealthAction::kNote) {
  return {.action = action};
}
inline Expected watched(HealthAction action = HealthAction::kSuspect) {
  return {.action = action, .busy = DeviceState::kSuspect, .idle = DeviceState::kSuspect};
}
inline Expected tested() {
  return {.action = HealthAction::kTestWhenIdle,
          .busy = DeviceState::kSuspect,
          .idle = DeviceState::kScrubbing,
          .later = WhenIdle::kTest};
}
inline Expected reset_later(Fate jobs = Fate::kKept, Bill bill = Bill::kCharged) {
  return {.action = HealthAction::kResetWhenIdle,
          .idle = DeviceState::kResetting,
          .later = WhenIdle::kReset,
          .jobs = jobs,
          .bill = bill};
}
inline Expected out(HealthAction action, DeviceState idle, WhenIdle later, Bill bill = Bill::kFromTheFault) {
  return {.action = action,
          .busy = DeviceState::kDraining,
          .idle = idle,
          .later = later,
          .jobs = Fate::kInterrupted,
          .bill = bill};
}
inline Expected reset_now() {
  return out(HealthAction::kDrainAndReset, DeviceState::kResetting, WhenIdle::kReset);
}
inline Expected quarantined(Bill bill) {
  return out(HealthAction::kQuarantine, DeviceState::kQuarantined, WhenIdle::kQuarantine, bill);
}
inline Expected node_out() {
  Expected expected = out(HealthAction::kDrainNode, DeviceState::kQuarantined, WhenIdle::kQuarantine);
  expected.node = true;
  return expected;
}

struct Case {
  wire::GpuVendor family = wire::GpuVendor::kNvidia;
  std::string source{};
  std::int64_t code = 0;
  std::int64_t value = 0;
  Expected expected{};
};

inline std::string text(const Case& one) {
  return std::string(wire::name_of(one.family)) + " " + one.source + " " + std::to_string(one.code) +
         " value " + std::to_string(one.value);
}

inline void add_xids(std::vector<Case>& cases) {
  const auto add = [&](std::initializer_list<std::int64_t> codes, const Expected& expected) {
    for (const std::int64_t code : codes)
      cases.push_back({.source = "xid", .code = code, .expected = expected});
  };
  add({13, 31, 32, 39, 40, 41, 43, 60, 68, 69, 70,  71,  72,  75,  76,  77,  80, 82,
       83, 84, 85, 86, 88, 89, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 139},
      noted());
  add({37, 38, 44, 66, 67, 93, 106, 107, 121, 137, 141, 157, 160, 161}, noted(HealthAction::kIgnore));
  add({46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158}, reset_now());
  add({94}, reset_later(Fate::kInterrupted, Bill::kFromTheCheckpoint));
  add({63}, reset_later());
  add({79, 151}, node_out());
  add({74, 144, 145, 146, 147, 148, 149, 150}, watched(HealthAction::kLeaveGangs));  // Jobs of one stay.
  add({92}, tested());
  add({54}, out(HealthAction::kRepair, DeviceState::kInRepair, WhenIdle::kRepair));
  add({45, 4242}, watched());
  for (const auto& [value, expected] :
       std::map<std::int64_t, Expected>{{0, noted()},
                                        {1, reset_now()},
                                        {2, node_out()},
                                        {3, watched(HealthAction::kLeaveGangs)},
                                        {4, reset_now()},
                                        {9, watched()}})
    cases.push_back({.source = "xid", .code = 154, .value = value, .expected = expected});
}

// What we make ourselves out of counters, links and tests, of whatever family.
inline void add_common(std::vector<Case>& cases, wire::GpuVendor family) {
  using namespace wire;
  const auto add = [&](const char* source, std::int64_t code, const Expected& expected) {
    cases.push_back({.family = family, .source = source, .code = code, .value = 1, .expected = expected});
  };
  Expected alone = noted(HealthAction::kDedicatedOnly);
  alone.alone = true;
  Expected lost{.action = HealthAction::kLost,
                .busy = DeviceState::kLost,
                .idle = DeviceState::kLost,
                .jobs = Fate::kInterrupted,
                .bill = Bill::kFromTheFault};
  add("ecc", kEccUncorrected, reset_now());
  add("ecc", kEccCorrectedRate, tested());
  add("ecc", kEccRemapPending, reset_later());
  add("ecc", kEccRemapFailed, reset_now());
  add("ecc", kEccOff, alone);
  add("link", kLinkWidth, watched());
  add("link", kLinkDown, watched(HealthAction::kLeaveGangs));
  add("thermal", kThermalSlowdown, watched());
  add("thermal", kPowerBrake, watched());
  add("telemetry", kDeviceLost, node_out());
  add("telemetry", kDeviceSilent, lost);
  add("telemetry", kDeviceBack, tested());
  add("agent", kLeaseStuck, quarantined(Bill::kFromTheFault));
  add("agent", kShareStuck, reset_now());
  add("agent", kWentAround, noted());
  add("agent", kForeignProcess, noted());
  add("test", kTestFailed, quarantined(Bill::kCharged));
  add("test", kTestCannotRun, tested());
  add("test", kScrubNotVerified, quarantined(Bill::kCharged));
  add("test", kStraggler, watched());
  add("smoke", 1, watched());  // From a source that nobody knows.
}

inline std::vector<Case> cases() {
  std::vector<Case> out;
  add_xids(out);
  add_common(out, wire::GpuVendor::kNvidia);
  add_common(out, wire::GpuVendor::kAmd);
  out.push_back({.family = wire::GpuVendor::kAmd, .source = "xid", .code = 48, .expected = watched()});
  return out;
}

// Codes that a table of the program names and nothing above does.
inline std::vector<std::string> forgotten() {
  std::set<std::tuple<std::string, std::string, std::int64_t>> known;
  for (const Case& one : cases())
    known.emplace(policy::health_table(one.family).family, one.source, one.code);
  std::vector<std::string> out;
  for (const wire::GpuVendor vendor : {wire::GpuVendor::kNvidia, wire::GpuVendor::kAny}) {
    const policy::HealthTable& table = policy::health_table(vendor);
    for (const policy::HealthRow& row : table.rows)
      for (const std::int64_t code : row.codes)
        if (!known.contains({table.family, row.source, code}))
          out.push_back(table.family + " " + row.source + " " + std::to_string(code));
  }
  return out;
}

// A node with two devices, and a tenant whose jobs cost something.
struct Bed : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId node{};
  DeviceId device{}, other{};
  std::vector<LeaseId> leases{};
  Instant began{};

  explicit Bed(wire::GpuVendor family) {
    const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(2)}}};
    TRANCHE_CHECK(run(SetPriceList{list}, root).has_value());
    TRANCHE_CHECK(run(TopUp{acme, units(1000), "", ""}, root).has_value());
    TokenHash invitation{};
    invitation[0] = 9;
    TRANCHE_CHECK(
        run(AddNode{.name = "gpu-01", .invitation = invitation, .expires_in = std::chrono::hours(1)}, root)
            .has_value());
    TRANCHE_CHECK(run(JoinNode{"gpu-01", invitation}).has_value());
    node = state.index.nodes_by_name.at("gpu-01");
    wire::Hello said = hello("gpu-01", 2, "H100-SXM5-80GB");
    for (wire::DeviceFacts& facts : said.devices) {
      facts.vendor = family;
      facts.profiles = {{"1g.10gb", 1, 1, 0x7F, 7, gigabytes(10)}, {"7g.80gb", 7, 8, 1, 1, gigabytes(80)}};
    }
    TRANCHE_CHECK(run(ReportNode{node, said}).has_value());
    TRANCHE_CHECK(accept(node).has_value());
    use(state.nodes.at(node).devices.front());
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
    use(state.leases.at(leases.front()).slices.front().device);
    for (const LeaseId id : leases) TRANCHE_CHECK(state.leases.at(id).slices.front().device == device);
    began = clock;
  }
  void meter() {
    for (const LeaseId id : leases) {
      const Lease& lease = state.leases.at(id);
      TRANCHE_CHECK(run(ReportMeters{.node = node,
                                     .records = {{.lease = id,
                                                  .epoch = lease.epoch,
                                                  .sequence = lease.use.sequence + 1,
                                                  .device = device,
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
  [[nodiscard]] const Device& hit() const { return state.devices.at(device); }

 private:
  void use(DeviceId id) {
    const std::vector<DeviceId>& both = state.nodes.at(node).devices;
    device = id;
    other = both.front() == id ? both.back() : both.front();
  }
};

// What is not as it should be; empty: everything is.
class Judge {
 public:
  Judge(const Case& one, Sharing sharing, Phase phase)
      : case_(one), expected_(one.expected), sharing_(sharing), phase_(phase), bed_(one.family) {}

  std::string run() {
    if (phase_ == Phase::kIdle)
      return bed_.signal(case_, bed_.clock) ? judge_idle() : "the signal was refused";
    bed_.start(sharing_);
    const Instant fault = bed_.clock + std::chrono::minutes(15);
    bed_.clock += std::chrono::minutes(30);
    bed_.meter();
    const Case first{.source = "ecc", .code = wire::kEccUncorrected};  // Of every family.
    if (phase_ == Phase::kDraining && !bed_.signal(first, fault)) return "the first signal was refused";
    if (phase_ == Phase::kCheckpointing && !bed_.run(StopJob{job_of(bed_.leases.front()).id}, bed_.ana))
      return "the job was not stopped";
    if (!bed_.signal(case_, fault)) return "the signal was refused";
    std::string wrong = judge_device();
    for (const LeaseId id : bed_.leases)  // All who share it alike.
      if (wrong.empty()) wrong = judge_job(id);
    return wrong;
  }

 private:
  [[nodiscard]] bool draining() const { return phase_ == Phase::kDraining; }
  // A process that went because we asked it to says nothing of the device.
  [[nodiscard]] bool our_kill() const {
    return case_.source == "xid" && case_.code == 45 && case_.family == wire::GpuVendor::kNvidia &&
           phase_ != Phase::kRunning && phase_ != Phase::kIdle;
  }
  [[nodiscard]] const Job& job_of(LeaseId id) const {
    return bed_.state.jobs.at(bed_.state.leases.at(id).job);
  }

  [[nodiscard]] std::string judge_common() const {
    const SeenSignal& seen = bed_.hit().record.signals.back();
    const HealthAction action = our_kill() ? HealthAction::kIgnore : expected_.action;
    if (seen.action != action) return "action " + std::string(wire::name_of(seen.action));
    if (seen.table_version != policy::health_table(case_.family).version)
      return "table " + seen.table_version;
    if (bed_.hit().record.dedicated_only != expected_.alone) return "shared or not";
    const DeviceState beside = bed_.state.devices.at(bed_.other).state;
    if (beside != (expected_.node ? DeviceState::kQuarantined : DeviceState::kHealthy))
      return "its neighbour is " + std::string(wire::name_of(beside));
    return {};
  }
  [[nodiscard]] std::string judge_idle() const {
    if (bed_.hit().state != expected_.idle)
      return std::string(wire::name_of(bed_.hit().state)) + " while idle";
    return judge_common();
  }
  [[nodiscard]] std::string judge_device() const {
    DeviceState wanted = our_kill() ? DeviceState::kHealthy : expected_.busy;
    WhenIdle later = our_kill() ? WhenIdle::kNothing : expected_.later;
    if (draining() && wanted != DeviceState::kLost) {
      wanted = DeviceState::kDraining;
      later = std::max(later, WhenIdle::kReset);
    }
    if (bed_.hit().state != wanted) return std::string(wire::name_of(bed_.hit().state));
    if (bed_.hit().record.when_idle != later)
      return "when idle " + std::string(wire::name_of(bed_.hit().record.when_idle));
    return judge_common();
  }
  std::string judge_job(LeaseId id) {
    const Lease& lease = bed_.state.leases.at(id);
    const bool hit = draining() || expected_.jobs == Fate::kInterrupted;
    const bool stopped = phase_ == Phase::kCheckpointing && id == bed_.leases.front();
    if (hit && !(lease.revoked && is_platform_fault(lease.revoke_reason))) return "its job was not told";
    if (!hit && lease.revoked != stopped) return "its job was touched";
    if (!bed_.report(id, LeaseState::kEnded, EndReason::kExited, hit || stopped ? 143 : 1))
      return "its end was refused";
    const Job& job = job_of(id);
    const JobState wanted = stopped ? JobState::kStopped : hit ? JobState::kPending : JobState::kFailed;
    if (job.state != wanted) return "its job is " + std::string(wire::name_of(job.state));
    const Bill bill = draining() ? Bill::kFromTheFault : expected_.bill;
    // Half an hour was metered, and the fault was in its middle.
    const std::int64_t all = job.charged.micros + job.credited.micros;
    const std::int64_t due = bill == Bill::kCharged ? 0 : bill == Bill::kFromTheFault ? all / 2 : all;
    if (all > 0 && job.credited.micros == due) return {};
    return "credited " + std::to_string(job.credited.micros) + " of " + std::to_string(all);
  }

  Case case_;
  Expected expected_;
  Sharing sharing_;
  Phase phase_;
  Bed bed_;
};

}  // namespace tranche::engine::health_matrix
