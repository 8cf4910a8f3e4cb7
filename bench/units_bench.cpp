// SPDX-License-Identifier: Apache-2.0
#include "bench/units_bench.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/text.hpp"
#include "sim/replay.hpp"
#include "wire/settings.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;
using wire::JobDetail;

double seconds_between(Instant from, Instant to) {
  return std::chrono::duration<double>(to - from).count();
}

double middle(std::vector<double> values) {
  if (values.empty()) throw std::runtime_error("nothing was measured");
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

JobDetail ended_well(Caller& user, JobId id) {
  // The times are the platform's own; to look on more often would take from what is looked at.
  JobDetail done = user.until_over(id, 50ms);
  if (done.job.state != wire::JobState::kSucceeded || !done.job.started || !done.job.ended)
    throw std::runtime_error(text(id) + " failed: " + done.message);
  return done;
}

double turnaround(const JobDetail& done) {
  return seconds_between(done.job.submitted, *done.job.ended);
}

std::string seconds_text(const char* what, double seconds) {
  char out[96];
  std::snprintf(out, sizeof out, "%s %.1f s", what, seconds);
  return out;
}

// Two fit on the device at once, and no third. What a share asks of memory is said beside it everywhere here:
// without, it is a share of the reference device, which may be larger than the one of this machine.
void frame_rows(Caller& user, std::vector<Row>& rows) {
  constexpr double kFrame = 0.1;
  constexpr int kFrames = 240, kSlices = 2;
  const JobDetail done =
      ended_well(user,
                 user.submit(R"({"run":"sleep 0.1 # {frame}","kind":"render","units":{"frames":"1..240"},)"
                             R"("limits":{"vram":"1GB"},"resources":{"gpus":"gpu:0.5"}})"));
  const double took = seconds_between(*done.job.started, *done.job.ended);
  rows.push_back({.what = "240 frames of 0.1 s over 2 slices, of the ideal parallel time",
                  .value = kFrame * kFrames / kSlices / took * 100,
                  .unit = "%",
                  .goal = 95});
}

// One person of a team: a session on the device, and beside it two short jobs as a CI would start them.
void spend_a_morning(Caller& person, const std::string& gpus, std::mutex& mutex, std::vector<double>& waits) {
  const auto job = [&](const char* kind, const char* run) {
    return std::string(R"({"kind":")") + kind + R"(","run":")" + run +
           R"(","limits":{"vram":"1GB"},"resources":{"gpus":")" + gpus + R"("}})";
  };
  std::vector<JobId> jobs{person.submit(job("interactive", "sleep 4"))};
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(1s);
    jobs.push_back(person.submit(job("batch", "sleep 0.5")));
  }
  for (const JobId id : jobs) {
    const JobDetail done = ended_well(person, id);
    const std::lock_guard lock(mutex);
    waits.push_back(seconds_between(done.job.submitted, *done.job.started));
  }
}

std::vector<double> waits_of_people(std::vector<Caller>& people, const std::string& gpus) {
  std::mutex mutex;
  std::vector<double> waits;
  std::vector<std::thread> threads;
  for (Caller& person : people) {
    threads.emplace_back([&] { spend_a_morning(person, gpus, mutex, waits); });
    std::this_thread::sleep_for(200ms);
  }
  for (std::thread& thread : threads) thread.join();
  return waits;
}

void people_rows(Site& site, std::vector<Row>& rows) {
  constexpr int kPeople = 15;
  std::vector<Caller> people;
  for (int i = 0; i < kPeople; ++i) people.push_back(site.user("school", "person-" + std::to_string(i)));
  const double shared = middle(waits_of_people(people, "gpu:0.06"));
  const double queued = middle(waits_of_people(people, "gpu:1"));
  rows.push_back({.what = "15 people on one device, shared: median wait of a session or short job",
                  .value = shared,
                  .unit = "s",
                  .goal = 2,
                  .better = Better::kLower,
                  .peer = seconds_text("one at a time", queued),
                  .peer_source = PeerSource::kMeasured});
}

// Saves its step when it is told to leave, and every tenth step; says where it began and what came out.
constexpr std::string_view kTraining = R"(cat > t.py <<'END'
import os, signal, sys, time
told = False
def tell(*_):
    global told
    told = True
signal.signal(signal.SIGUSR1, tell)
path = os.path.join(os.environ['TRANCHE_CHECKPOINT_DIR'], 'state')
step, value = 0, 1
if os.path.exists(path):
    step, value = map(int, open(path).read().split())
print('from', step, flush=True)
def save():
    with open(path + '.part', 'w') as out:
        out.write(f'{step} {value}')
    os.replace(path + '.part', path)
while step < STEPS:
    step, value = step + 1, value * 6364136223846793005 % 2**61 + step
    print('step', step, flush=True)
    if told or step % 10 == 0: save()
    if told: sys.exit(75)
    time.sleep(0.01)
print('result', value, flush=True)
END
exec python3 t.py)";

std::string training(int steps) {
  const std::string script = replaced(std::string(kTraining), "STEPS", std::to_string(steps));
  return R"({"kind":"training","preemptible":true,"priority":10,"limits":{"vram":"1GB"},"resources":{"gpus":"gpu:1"},)"
         R"("checkpoint":{"signal":"SIGUSR1","grace":"20s"},"run":")" +
         replaced(script, "\n", "\\n") + "\"}";
}

struct Told {     // By the training itself, over all its attempts.
  long lost = 0;  // Steps that were done twice.
  int starts = 0;
  std::string result{};
};
Told read_logs(Caller& user, JobId id) {
  Told told;
  long last = 0;
  const std::uint32_t attempts = user.job(id).attempts;
  for (std::uint32_t attempt = 1; attempt <= attempts; ++attempt) {
    std::istringstream lines(
        user.ask("GET", "/v1/jobs/" + text(id) + "/logs?attempt=" + std::to_string(attempt)));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string what;
      long number = 0;
      words >> what >> number;
      if (what == "from") {
        told.lost += last - number;
        ++told.starts;
      } else if (what == "step") {
        last = number;
      } else if (what == "result") {
        told.result = line;
      }
    }
  }
  return told;
}

// A job that may take its place comes twenty times; each time the training must be seen at work first.
// Whoever was stopped is usually left alone for a while: the operator says here that nobody is.
void preemption_rows(Site& site, Caller& user, std::vector<Row>& rows) {
  constexpr int kTimes = 20, kSteps = 1200;
  constexpr auto kMost = 240s;
  const auto until = std::chrono::steady_clock::now() + kMost;
  const std::string before = site.root().ask("GET", "/v1/settings");
  auto settings = wire::from_json<wire::Settings>(before);
  if (!settings) throw std::runtime_error("the settings cannot be read");
  settings->minimum_run = {};
  site.root().ask("PUT", "/v1/settings", wire::to_json(*settings));
  const JobId alone = user.submit(training(kSteps));
  static_cast<void>(ended_well(user, alone));
  const JobId train = user.submit(training(kSteps));
  int preempted = 0;
  for (; preempted < kTimes; ++preempted) {
    JobDetail seen = user.job(train);
    const auto at_work = [&] {
      return seen.job.state == wire::JobState::kRunning &&
             seen.attempts == static_cast<std::uint32_t>(preempted) + 1;
    };
    while (!wire::is_over(seen.job.state) && !at_work()) {
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("the training did not come back after " + std::to_string(preempted) +
                                 " preemptions");
      std::this_thread::sleep_for(20ms);
      seen = user.job(train);
    }
    if (wire::is_over(seen.job.state)) break;
    progress("preemption " + std::to_string(preempted + 1) + " of " + std::to_string(kTimes));
    static_cast<void>(ended_well(
        user,
        user.submit(R"({"run":"true","priority":90,"limits":{"vram":"1GB"},"resources":{"gpus":"gpu:1"}})")));
  }
  static_cast<void>(ended_well(user, train));
  site.root().ask("PUT", "/v1/settings", before);
  const Told told = read_logs(user, train);
  if (told.starts - 1 < kTimes)
    throw std::runtime_error("the training was preempted " + std::to_string(told.starts - 1) + " times of " +
                             std::to_string(kTimes));
  if (told.result.empty() || told.result != read_logs(user, alone).result)
    throw std::runtime_error("the training that gave way came to another result");
  rows.push_back({.what = "training preempted " + std::to_string(told.starts - 1) +
                          " times, same result: steps done twice",
                  .value = static_cast<double>(told.lost),
                  .unit = "of " + std::to_string(kSteps),
                  .better = Better::kLower});
}

// The day of a farm: every team has its own peak, and a little to do all day.
sim::ReplayTrace farm_day() {
  constexpr std::int32_t kTeams = 3;
  sim::ReplayTrace trace;
  for (std::int32_t team = 0; team < kTeams; ++team) {
    trace.pools.push_back({"team-" + std::to_string(team), 1});
    for (std::int32_t frame = 0; frame < 240; ++frame)  // From 09:00, 13:00 and 17:00 on, in five minutes.
      trace.jobs.push_back({(9 + 4 * team) * 3600 + frame * 300 / 240, 240, 1, team});
    for (std::int32_t hour = 0; hour < 24; ++hour)
      trace.jobs.push_back({hour * 3600 + 60 * team, 600, 1, team});
  }
  std::stable_sort(
      trace.jobs.begin(), trace.jobs.end(), [](const auto& a, const auto& b) { return a.submit < b.submit; });
  return trace;
}

// Mean time from submission to end of the frames that come at the peaks.
double peak_turnaround(const sim::ReplayTrace& trace, sim::ReplayMode mode) {
  const sim::ReplayRun run = sim::replay(trace, {.mode = mode});
  double total = 0;
  int frames = 0;
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    if (trace.jobs[i].duration != 240) continue;
    if (run.outcomes[i].end < 0) throw std::runtime_error("a frame of the replay never ended");
    total += static_cast<double>(run.outcomes[i].end - trace.jobs[i].submit);
    ++frames;
  }
  return total / frames;
}

void replayed_farm_rows(std::vector<Row>& rows) {
  const sim::ReplayTrace day = farm_day();
  const double thirds = peak_turnaround(day, sim::ReplayMode::kWalls);
  const double lending = peak_turnaround(day, sim::ReplayMode::kLending);
  rows.push_back({.what = "render farm of 3 teams, replayed: fixed thirds / lending, turnaround at the peaks",
                  .value = thirds / lending,
                  .unit = "times",
                  .goal = 2,
                  .peer = seconds_text("fixed thirds", thirds),
                  .peer_source = PeerSource::kMeasured});
}

// The films of three teams, each at its own peak while the others have a little to do.
double real_peaks(std::vector<Caller>& teams) {
  std::vector<double> times;
  for (Caller& busy : teams) {
    std::vector<std::pair<Caller*, JobId>> little;
    for (Caller& other : teams)
      if (&other != &busy)
        little.emplace_back(
            &other,
            other.submit(R"({"run":"sleep 0.5","limits":{"vram":"1GB"},"resources":{"gpus":"gpu:0.33"}})"));
    const JobId film =
        busy.submit(R"({"run":"sleep 0.5 # {frame}","kind":"render","units":{"frames":"1..36"},)"
                    R"("limits":{"vram":"1GB"},"resources":{"gpus":"gpu:0.33"}})");
    const JobDetail done = ended_well(busy, film);
    times.push_back(turnaround(done));
    for (const JobId chunk : done.chunks)  // The last one ends a moment after its film.
      static_cast<void>(busy.until_over(chunk, 50ms));
    for (const auto& [other, id] : little) static_cast<void>(ended_well(*other, id));
  }
  return middle(times);
}

void real_farm_rows(Site& site, std::vector<Row>& rows) {
  std::vector<Caller> teams;
  for (const char* name : {"red", "green", "blue"}) teams.push_back(site.user(name, "lead"));
  const auto quotas = [&](const char* share) {
    for (const char* name : {"red", "green", "blue"})
      site.root().ask("PUT",
                      std::string("/v1/quotas/") + name,
                      std::string(R"({"share_soft":true,"gpu_milli":)") + share + "}");
  };
  quotas(R"({"guaranteed":330,"limit":330})");
  const double thirds = real_peaks(teams);
  quotas(R"({"guaranteed":330,"limit":1000})");
  const double lending = real_peaks(teams);
  rows.push_back({.what = "render farm of 3 teams, for real: fixed thirds / lending, turnaround at the peaks",
                  .value = thirds / lending,
                  .unit = "times",
                  .goal = 2,
                  .peer = seconds_text("fixed thirds", thirds),
                  .peer_source = PeerSource::kMeasured});
}

}  // namespace

std::vector<Row> unit_rows(Site& site) {
  std::vector<Row> rows;
  Caller user = site.user("studio", "maria");
  const auto part = [&](const char* name, const std::function<void()>& run) {
    if (!wanted(name)) return;
    progress(name);
    run();
  };
  part("frames", [&] { frame_rows(user, rows); });
  part("people", [&] { people_rows(site, rows); });
  part("preemption", [&] { preemption_rows(site, user, rows); });
  part("farm replayed", [&] { replayed_farm_rows(rows); });
  part("farm for real", [&] { real_farm_rows(site, rows); });
  return rows;
}

}  // namespace tranche::bench
