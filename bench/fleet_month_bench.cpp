// SPDX-License-Identifier: Apache-2.0
// SIMULATED: a thousand nodes of eight devices over thirty days through the real engine, with published
// failure rates, once with signals, drains, resets and tests, and once with faults that nobody is told of.
// What is simulated is the machines and the clock; who runs where, and what becomes of whom, the engine
// decides.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <queue>
#include <set>
#include <stdexcept>

#include "base/random.hpp"
#include "bench/bench.hpp"
#include "engine/device_life.hpp"
#include "engine/world.hpp"

namespace tranche::bench {
namespace {

using namespace engine;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kNodes = 1000;
constexpr int kDevicesEach = 8;
constexpr int kGangNodes = 8;
constexpr Duration kMonth = hours(24 * 30);
constexpr auto kPatience = minutes(15);  // For each of the two runs.
constexpr Duration kStep = minutes(5);   // So often the engine is asked for a pass.
constexpr Duration kCheckpointEvery = hours(1);
constexpr Duration kStartup = minutes(1);

// Published: Meta RSC, one failure in 47.7 days for eight devices; Llama 3, 58.7 % of failures are of the
// device, and 3 of 419 needed hands.
constexpr double kDaysBetweenFaultsOfNode = 47.7;
constexpr double kShareOfDevices = 0.587;
constexpr double kNeedsHands = 3.0 / 419;
// Assumed, and said in the rows: how long things take, and when somebody notices without signals.
constexpr Duration kWipeTakes = minutes(1);
constexpr Duration kResetTakes = minutes(5);
constexpr Duration kTestTakes = minutes(15);
constexpr Duration kRebootTakes = minutes(15);
constexpr Duration kHandsTake = hours(72);
constexpr Duration kNoticedAfter = hours(8);
constexpr Duration kCrashAfter = minutes(10);  // A job that was placed on a broken device.

enum class Due { kFault, kNodeBack, kAnswer, kReturned, kNoticed, kDone, kGone, kCrash, kSaved };
struct Moment {
  Instant at{};
  Due due{};
  std::uint64_t what = 0;
  std::uint64_t which = 0;  // Order or attempt.
  bool operator>(const Moment& other) const {
    return std::tuple(at, what, which) > std::tuple(other.at, other.what, other.which);
  }
};

struct Work {
  PartyId user{};
  bool gang = false;
  Duration total{};
  Duration saved{};
  std::uint32_t attempt = 0;  // Running now; zero: none.
  Instant began{};
  [[nodiscard]] std::int64_t devices() const { return (gang ? kGangNodes : 1) * kDevicesEach; }
};

// What ended attempts of jobs that went on.
enum class Cause { kFault, kPreempted, kMoved, kCrashed, kOther };
constexpr std::array kCauses{"a fault of device or node",
                             "made way for others",
                             "moved to make room, or off a node",
                             "crashed on a device that nobody knew to be broken",
                             "anything else"};

struct Tally {
  double goodput = 0;
  int interrupted = 0;
  std::array<int, kCauses.size()> by_cause{};
  int finished = 0;
  int failed = 0;  // With a verdict.
  int lost = 0;    // Neither running, nor waiting, nor ended with a verdict.
  int held = 0;    // Of these, what the platform failed so often that a person decides.
  int faults = 0;
};

class Month : World {
 public:
  Month(bool lifecycle, std::uint64_t seed) : lifecycle_(lifecycle), random_(seed) {
    for (int i = 0; i < 8; ++i)
      users_.push_back(user(create(PartyKind::kTenant, kPlatform, "tenant" + std::to_string(i)), "user"));
    for (int i = 0; i < kNodes; ++i) join("n" + std::to_string(1000 + i));
    from_ = clock;
    const int gangs = kNodes / kGangNodes / 2;
    for (int i = 0; i < gangs + gangs / 10; ++i) add_job(true);
    for (int i = 0; i < kNodes / 2 + kNodes / 20; ++i) add_job(false);
    moments_.push({from_ + next_fault(), Due::kFault});
  }

  Tally run() {
    constexpr Duration kBetweenWords = hours(24 * 5);
    const auto began = std::chrono::steady_clock::now();
    Instant tick = from_, told = from_;
    for (clock = from_; clock < from_ + kMonth; clock += kStep) {
      if (clock >= told + kBetweenWords) {
        told = clock;
        const auto took = std::chrono::steady_clock::now() - began;
        progress("month " + std::string(lifecycle_ ? "with" : "without") + " the lifecycle: day " +
                 std::to_string((clock - from_) / hours(24)) + " of 30 after " +
                 std::to_string(took / seconds(1)) + " s");
        if (took > kPatience) throw std::runtime_error("this machine is too slow for the month");
      }
      while (!moments_.empty() && moments_.top().at <= clock) {
        const Moment moment = moments_.top();
        moments_.pop();
        happen(moment);
      }
      if (clock - tick >= hours(1)) {
        tick = clock;
        say(Tick{});
      }
      while (schedule_due(state, clock))
        if (!say(Schedule{})) break;
    }
    for (auto& [id, work] : work_) account(work, clock);
    tally_.goodput = useful_ / (static_cast<double>(kMonth.count()) * kNodes * kDevicesEach);
    count_unsettled();
    return tally_;
  }

 private:
  void join(const std::string& name) {
    TokenHash invitation{};
    invitation[0] = 9;
    TRANCHE_CHECK(World::run(AddNode{.name = name, .invitation = invitation, .expires_in = hours(1)}, root)
                      .has_value());
    TRANCHE_CHECK(World::run(JoinNode{name, invitation}).has_value());
    const NodeId id = state.index.nodes_by_name.at(name);
    nodes_.push_back(id);
    TRANCHE_CHECK(World::run(ReportNode{id, hello_of(name, 1)}).has_value());
    TRANCHE_CHECK(accept(id).has_value());
  }
  static wire::Hello hello_of(const std::string& name, int boot) {
    wire::Hello said = hello(name, kDevicesEach, "H100-SXM5-80GB");
    said.boot_id = "boot-" + std::to_string(boot);
    for (wire::DeviceFacts& facts : said.devices) facts.vendor = wire::GpuVendor::kNvidia;
    return said;
  }

  void add_job(bool gang) {
    Ask ask = gpus(gang ? kGangNodes * kDevicesEach : kDevicesEach);
    ask.nodes = gang ? kGangNodes : 1;
    ask.preemptible = true;  // It has checkpoints, so it may also run on a device on probation.
    ask.retries = 1000;
    const PartyId owner = users_[random_.below(users_.size())];
    const JobId id = submit(owner, ask);
    const auto hours_long = static_cast<int>(gang ? 24 + random_.below(48) : 12 + random_.below(24));
    work_[id] = {.user = owner, .gang = gang, .total = hours(hours_long)};
  }

  Duration next_fault() {
    const double mean = kDaysBetweenFaultsOfNode * 86400e6 / kNodes;
    const double draw = (static_cast<double>(random_.below(1U << 30U)) + 1) / static_cast<double>(1U << 30U);
    return Duration(static_cast<std::int64_t>(-std::log(draw) * mean));
  }

  // Decides, and lets the machines do what was decided. False: nothing was.
  bool say(const Command& command, PartyId actor = {}) {
    const auto decision = World::run(command, actor);
    if (!decision || decision->empty()) return false;
    for (const Event& event : *decision) follow(event);
    return true;
  }
  void follow(const Event& event) {
    if (const auto* granted = std::get_if<LeaseGranted>(&event)) return begin(*granted);
    if (const auto* revoked = std::get_if<LeaseRevoked>(&event))
      return moments_.push({clock + seconds(30), Due::kGone, revoked->id.value});
    if (const auto* requeued = std::get_if<JobRequeued>(&event)) {
      ++tally_.interrupted;
      ++tally_.by_cause[static_cast<std::size_t>(cause_of(*requeued))];
      return account(work_.at(requeued->id), clock);
    }
    if (const auto* ended = std::get_if<JobEnded>(&event)) return conclude(*ended);
    if (const auto* ordered = std::get_if<DeviceOrdered>(&event))
      return moments_.push(
          {clock + time_for(ordered->task), Due::kAnswer, ordered->device.value, ordered->order});
    if (const auto* opened = std::get_if<RepairOpened>(&event))
      moments_.push({clock + kHandsTake, Due::kReturned, opened->id});
  }
  [[nodiscard]] Cause cause_of(const JobRequeued& requeued) const {
    if (is_platform_fault(requeued.reason)) return Cause::kFault;
    if (requeued.reason == EndReason::kExited) return Cause::kCrashed;
    if (requeued.reason != EndReason::kPreempted) return Cause::kOther;
    const auto& leases = state.jobs.at(requeued.id).leases;
    const bool moved = std::any_of(leases.begin(), leases.end(), [&](LeaseId id) {
      const Lease& lease = state.leases.at(id);
      return lease.goes_to != NodeId{} || lease.promised_to == JobId{};
    });
    return moved ? Cause::kMoved : Cause::kPreempted;
  }
  [[nodiscard]] Duration time_for(DeviceTask task) const {
    if (task == DeviceTask::kWipe) return kWipeTakes;
    if (!lifecycle_) return seconds(1);  // Nothing is tested.
    return task == DeviceTask::kReset ? kResetTakes : kTestTakes;
  }

  void begin(const LeaseGranted& granted) {
    Work& work = work_.at(granted.job);
    if (granted.rank == 0) {
      work.attempt = granted.attempt;
      work.began = clock + kStartup;
      moments_.push({work.began + (work.total - work.saved), Due::kDone, granted.job.value, granted.attempt});
      moments_.push({work.began + kCheckpointEvery, Due::kSaved, granted.job.value, granted.attempt});
    }
    static_cast<void>(report(granted.id, LeaseState::kRunning));
    for (const Slice& slice : granted.slices)
      if (broken_.contains(slice.device)) moments_.push({clock + kCrashAfter, Due::kCrash, granted.id.value});
  }
  // What an attempt that ends now leaves behind.
  void account(Work& work, Instant at) {
    if (work.attempt == 0) return;
    const Duration ran = std::clamp<Duration>(at - work.began, Duration{}, work.total - work.saved);
    const Duration kept = kCheckpointEvery * (ran / kCheckpointEvery);
    work.saved += kept;
    work.attempt = 0;
    useful_ += static_cast<double>(kept.count()) * static_cast<double>(work.devices());
  }
  void conclude(const JobEnded& ended) {
    Work& work = work_.at(ended.id);
    if (ended.state == JobState::kSucceeded) {
      ++tally_.finished;
      useful_ += static_cast<double>((work.total - work.saved).count()) * static_cast<double>(work.devices());
    } else {
      account(work, clock);
      ++tally_.failed;
    }
    const bool gang = work.gang;
    work_.erase(ended.id);
    add_job(gang);
  }

  void happen(const Moment& moment) {
    switch (moment.due) {
      case Due::kFault:
        fault();
        moments_.push({clock + next_fault(), Due::kFault});
        return;
      case Due::kNodeBack:
        say(ReportNode{{moment.what},
                       hello_of(state.nodes.at(NodeId{moment.what}).name,
                                static_cast<int>(++boots_[{moment.what}]) + 1)});
        return;
      case Due::kAnswer:
        return answer({moment.what}, moment.which);
      case Due::kReturned:
        mended_by_hand(moment.what);
        return;
      case Due::kNoticed:
        broken_.erase({moment.what});
        return;
      case Due::kDone:
        return done({moment.what}, moment.which);
      case Due::kSaved:
        return saved({moment.what}, moment.which);
      case Due::kGone:
        return over({moment.what}, 143);
      case Due::kCrash:
        return over({moment.what}, 1);
    }
  }

  void fault() {
    ++tally_.faults;
    const NodeId node = nodes_[random_.below(nodes_.size())];
    if (static_cast<double>(random_.below(1000)) >= kShareOfDevices * 1000) {
      if (state.nodes.at(node).state != NodeState::kReady) return;
      say(LoseNode{node, "the machine or its network failed"});
      moments_.push({clock + kRebootTakes, Due::kNodeBack, node.value});
      return;
    }
    const Device& device = state.devices.at(state.nodes.at(node).devices[random_.below(kDevicesEach)]);
    broken_.insert(device.id);
    if (lifecycle_) {
      constexpr std::int64_t kCodes[] = {
          48, 95, 119, 46, 62};  // Memory, contained no more, processor, channel.
      say(NoteHealth{.node = node,
                     .signal = {.uuid = device.facts.uuid,
                                .source = "xid",
                                .code = kCodes[random_.below(std::size(kCodes))],
                                .at = clock}});
      return;
    }
    moments_.push({clock + kNoticedAfter, Due::kNoticed, device.id.value});
    for (const Lease* lease : leases_on(state, device)) moments_.push({clock, Due::kCrash, lease->id.value});
  }

  void answer(DeviceId id, std::uint64_t order) {
    const Device& device = state.devices.at(id);
    if (device.record.order != order || state.nodes.at(device.node).state != NodeState::kReady) return;
    const DeviceTask task = device.record.task;
    wire::Receipts receipts;
    receipts.outcomes.push_back({order, id, task, true, ""});
    if (task == DeviceTask::kReset && random_.below(10000) >= static_cast<std::uint64_t>(kNeedsHands * 10000))
      broken_.erase(id);
    const auto verdict = lifecycle_ && broken_.contains(id) ? wire::Verdict::kCritical : wire::Verdict::kPass;
    if (task == DeviceTask::kAccept)
      receipts.acceptances.push_back({.device = id,
                                      .level = device.record.level,
                                      .verdict = verdict,
                                      .at = clock,
                                      .tests = {{.name = "SIMULATED", .verdict = verdict}}});
    if (task != DeviceTask::kReset)
      receipts.scrubs.push_back({.device = id,
                                 .lease = task == DeviceTask::kWipe ? device.record.left_by : LeaseId{},
                                 .zeroed = device.facts.vram,
                                 .verified = device.facts.vram,
                                 .method = "SIMULATED"});
    say(KeepReceipts{.node = device.node, .receipts = std::move(receipts)});
  }
  void mended_by_hand(std::uint64_t repair) {
    const auto found = state.repairs.find(repair);
    if (found == state.repairs.end()) return;
    broken_.erase(found->second.device);
    say(ChangeRepair{.id = repair, .to = RepairState::kReturned}, root);
  }

  void done(JobId id, std::uint64_t attempt) {
    const auto work = work_.find(id);
    if (work == work_.end() || work->second.attempt != attempt) return;
    const Job& job = state.jobs.at(id);
    if (job.state != JobState::kRunning) return;  // It is being stopped: what it saves counts then.
    const std::vector<LeaseId> leases = job.leases;
    for (const LeaseId lease : leases) over(lease, 0);
  }
  // The job says that a checkpoint is whole, and is at the next one.
  void saved(JobId id, std::uint64_t attempt) {
    const auto work = work_.find(id);
    if (work == work_.end() || work->second.attempt != attempt) return;
    const Lease& lease = state.leases.at(state.jobs.at(id).leases.front());
    if (!lease.live() || lease.revoked) return;
    say(NoteProgress{.node = lease.node,
                     .report = {.lease = lease.id,
                                .epoch = lease.epoch,
                                .at = clock,
                                .checkpoints = {{.name = "step", .at = clock}}}});
    moments_.push({clock + kCheckpointEvery, Due::kSaved, id.value, attempt});
  }
  void over(LeaseId id, std::int32_t code) {
    const Lease* lease = state.lease(id);
    if (lease == nullptr || !lease->live()) return;
    say(ReportLease{.node = lease->node,
                    .report = {.lease = id,
                               .epoch = lease->epoch,
                               .state = LeaseState::kEnded,
                               .at = clock,
                               .reason = EndReason::kExited,
                               .exit_code = code}});
  }

  void count_unsettled() {
    for (const auto& [id, work] : work_) {
      const Job* job = state.job(id);
      if (job == nullptr || is_over(job->state)) {
        ++tally_.lost;  // Gone, and no word of it came.
      } else if (job->state != JobState::kPending) {
        tally_.held += job->state == JobState::kHeld ? 1 : 0;
        const bool runs = std::any_of(job->leases.begin(), job->leases.end(), [&](LeaseId lease) {
          const Lease* found = state.lease(lease);
          return found != nullptr && found->live();
        });
        tally_.lost += runs ? 0 : 1;
      }
    }
  }

  bool lifecycle_;
  Random random_;
  std::vector<PartyId> users_;
  std::vector<NodeId> nodes_;
  std::map<JobId, Work> work_;  // Not ended.
  std::map<NodeId, int> boots_;
  std::set<DeviceId> broken_;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
  Instant from_{};
  double useful_ = 0;  // Device-microseconds of work that was kept.
  Tally tally_;
};

}  // namespace

std::vector<Row> fleet_month_rows() {
  constexpr std::uint64_t kSeed = 7;
  const Tally with = Month(true, kSeed).run();
  const Tally without = Month(false, kSeed).run();
  const std::string fleet =
      "SIMULATED, 1,000 nodes of 8 over 30 days, a fault of a node in 47.7 days (seed 7): ";
  const auto row = [&](const std::string& what, double value, const std::string& unit) {
    return Row{.what = fleet + what, .value = value, .unit = unit};
  };
  std::vector<Row> rows{
      row("goodput with the lifecycle, checkpoints every hour", 100 * with.goodput, "%"),
      row("goodput without: a broken device is noticed after 8 hours (assumed)", 100 * without.goodput, "%"),
      row("faults", with.faults, "faults"),
      row("interruptions of jobs with", with.interrupted, "interruptions"),
      row("interruptions of jobs without", without.interrupted, "interruptions"),
      row("jobs finished with", with.finished, "jobs"),
      row("jobs ended by faults, with a verdict", with.failed, "jobs"),
      row("of the jobs lost, those held for a person", with.held + without.held, "jobs")};
  for (std::size_t i = 0; i < kCauses.size(); ++i)
    rows.push_back(
        row("of the interruptions with: " + std::string(kCauses[i]), with.by_cause[i], "interruptions"));
  rows.front().peer = "Llama 3: more than 90 % effective time on 16,384 devices";
  rows.front().peer_source = PeerSource::kQuoted;
  rows.push_back({.what = fleet + "jobs lost without a verdict, of both runs",
                  .value = static_cast<double>(with.lost + without.lost),
                  .unit = "jobs",
                  .goal = 0.5,  // None.
                  .better = Better::kLower});
  return rows;
}

}  // namespace tranche::bench
