// SPDX-License-Identifier: Apache-2.0
#include "server/forecaster.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <future>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/run_ahead.hpp"
#include "server/sooner.hpp"

namespace tranche::server {
namespace {

using policy::Seconds;
using std::chrono::seconds;

constexpr std::size_t kSoonerShown = 4;
constexpr Seconds kNever = -1;

// One run's end, as a child writes it: fewer bytes than a pipe keeps together.
struct Line {
  std::int32_t run = 0;  // From the number of runs on: changes, in their order.
  Seconds wait = kNever;
};

// Each run uses a state up, so each has a process of its own.
[[noreturn]] void run_in_child(int out,
                               engine::State& state,
                               Instant now,
                               JobId job,
                               const std::vector<Change>& changes,
                               ForecastLimits limits) {
  ::setpriority(PRIO_PROCESS, 0, 10);
  const std::int32_t all = limits.runs + 1 + static_cast<std::int32_t>(changes.size());
  for (std::int32_t run = 0; run < all; ++run) {
    const pid_t child = ::fork();
    if (child < 0) ::_exit(1);
    if (child > 0) {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunAheadOptions options{.seed = job.value, .steps_max = limits.steps_max};
    bool possible = true;
    if (run < limits.runs) {
      options.run = run;
      options.runs = limits.runs;
    } else if (run > limits.runs) {
      possible = change_ask(state, job, changes[static_cast<std::size_t>(run - limits.runs - 1)].ask);
    }
    const auto wait = possible ? run_ahead(state, now, job, options) : std::nullopt;
    const Line line{run, wait ? std::chrono::ceil<seconds>(*wait).count() : kNever};
    const bool written = ::write(out, &line, sizeof line) == static_cast<ssize_t>(sizeof line);
    ::_exit(written ? 0 : 1);
  }
  ::_exit(0);
}

}  // namespace

struct Forecaster::Child {
  pid_t pid = 0;
  int from = -1;
  Instant now{};
  std::vector<Change> changes{};
  engine::Foretold foretold{};  // What was said before, and how it came.
};

struct Forecaster::Runs {
  std::vector<Seconds> waits{};  // Of those that started within the bounds.
  std::int32_t ended = 0;
  Seconds middle = kNever;                   // Everybody runs as long as the middle of its like.
  std::map<std::size_t, Seconds> changed{};  // By the number of the change.
};

std::optional<Forecaster::Child> Forecaster::start_child(const engine::State& state, JobId id) const {
  const engine::Job* job = state.job(id);
  if (job == nullptr || job->state != wire::JobState::kPending) return std::nullopt;
  if (state.nodes.empty()) return std::nullopt;  // Nothing will start where nothing is.
  Child child{.now = state.now, .foretold = state.foretold};
  // Whoever waits for another job to end would wait in any shape.
  if (!state.work.waits.contains(id)) child.changes = changes_for(*job);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    // Sockets and the journal are the parent's alone.
    ::dup2(ends[1], STDIN_FILENO);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    // This process owns its copy: nobody else sees what becomes of it.
    run_in_child(STDIN_FILENO, const_cast<engine::State&>(state), child.now, id, child.changes, limits_);
  }
  ::close(ends[1]);
  child.from = ends[0];
  if (child.pid > 0) return child;
  ::close(ends[0]);
  return std::nullopt;
}

Forecaster::Runs Forecaster::collect(Child& child) const {
  Runs runs;
  const auto deadline = std::chrono::steady_clock::now() + limits_.patience;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{.fd = child.from, .events = POLLIN, .revents = 0};
    const int polled = left.count() <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left.count()));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) {
      ::kill(child.pid, SIGKILL);
      break;
    }
    Line line;
    const ssize_t got = ::read(child.from, &line, sizeof line);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof line)) break;
    if (line.run < limits_.runs) {
      ++runs.ended;
      if (line.wait != kNever) runs.waits.push_back(line.wait);
    } else if (line.run == limits_.runs) {
      runs.middle = line.wait;
    } else {
      runs.changed[static_cast<std::size_t>(line.run - limits_.runs - 1)] = line.wait;
    }
  }
  ::close(child.from);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {}
  return runs;
}

Forecast Forecaster::forecast(JobId job) {
  auto promise = std::make_shared<std::promise<std::optional<Child>>>();
  auto started = promise->get_future();
  loop_.read(
      [this, job, promise](const engine::State& state) { promise->set_value(start_child(state, job)); });
  while (started.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
    if (loop_.stopping()) return {};
  std::optional<Child> child = started.get();
  if (!child) return {};
  Runs runs = collect(*child);
  Forecast forecast;
  // Mostly beyond the bounds is not an answer.
  if (runs.waits.size() * 10 >= static_cast<std::size_t>(limits_.runs) * 9)
    forecast.starts = answer(job, *child, runs.waits);
  for (const auto& [number, wait] : runs.changed) {
    if (wait == kNever ||
        (runs.middle != kNever && wait + std::max<Seconds>(60, runs.middle / 10) > runs.middle))
      continue;
    forecast.sooner.push_back({.change = child->changes[number].how, .starts_in = seconds(wait)});
  }
  std::stable_sort(forecast.sooner.begin(), forecast.sooner.end(), [](const auto& a, const auto& b) {
    return a.starts_in < b.starts_in;
  });
  if (forecast.sooner.size() > kSoonerShown) forecast.sooner.resize(kSoonerShown);
  return forecast;
}

wire::WhyStarts Forecaster::answer(JobId job, const Child& child, std::vector<Seconds> waits) {
  const auto whole = [](Duration length) { return std::chrono::floor<seconds>(length).count(); };
  policy::ForecastRecord record;
  std::vector<Seconds> errors;
  for (const engine::ToldOutcome& one : child.foretold.outcomes) {
    record.resolve({.p50 = whole(one.p50), .p90 = whole(one.p90)}, whole(one.really));
    errors.push_back(std::abs(whole(one.really) - whole(one.p50)));
  }
  std::vector<double> overdue;
  for (const auto& [id, told] : child.foretold.open) {
    const Seconds waited = whole(child.now - told.at);
    if (waited > whole(told.p90)) overdue.push_back(policy::lateness_ratio(whole(told.p90), waited));
  }
  const auto raw = policy::forecast_from_runs(std::move(waits));
  const auto scaled = policy::scaled(raw, record.scale(overdue));
  // Written down, so that its error is known when it comes true, also after a restart.
  loop_.submit({.origin = "local"},
               engine::NoteForecast{job, seconds(raw.p50), seconds(raw.p90)},
               [](const Outcome&) {});
  wire::WhyStarts starts{.p50 = child.now + seconds(scaled.p50), .p90 = child.now + seconds(scaled.p90)};
  if (!errors.empty()) {
    std::sort(errors.begin(), errors.end());
    starts.error_median = seconds(errors[errors.size() / 2]);
    starts.predictions = static_cast<std::uint32_t>(errors.size());
  }
  return starts;
}

}  // namespace tranche::server
