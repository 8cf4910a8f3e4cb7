// SPDX-License-Identifier: Apache-2.0
// Which replicas can serve: each is asked until it is ready, and from then on whether it still is. One that
// falls silent gets no requests, and is replaced when it stays so.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "gateway/gateway.hpp"

namespace tranche::gateway {
namespace {

using namespace std::chrono_literals;
using Copy = LiveService::Copy;

constexpr auto kProbePatience = 1s;
constexpr auto kCheckEvery = 5s;            // At most.
constexpr std::uint32_t kChecksFailed = 3;  // In a row: it is not ready any more.
constexpr std::uint32_t kChecksSilent = 6;  // For so long after that: it is replaced.
constexpr auto kWaitWorthAWord = 2s;

// What starts quickly is missed quickly.
Duration check_interval(const wire::ServiceSpec& spec) {
  return std::min<Duration>(kCheckEvery, spec.start_timeout / 10);
}

template <class Value>
void keep_only(std::map<JobId, Value>& entries, const std::set<JobId>& jobs) {
  std::erase_if(entries, [&](const auto& entry) { return !jobs.contains(entry.first); });
}

}  // namespace

void Gateway::probe(const std::shared_ptr<LiveService>& service,
                    Control& control,
                    const LiveService::Picture& picture) {
  std::set<JobId> starting, ready;
  control.waits.clear();
  for (const Copy& copy : picture.copies) {
    const JobId job = copy.facts.job;
    if (copy.facts.retiring || copy.draining) continue;
    if (copy.facts.target.port == 0) {  // Its turn has not come: it has all its time to start before it.
      control.silent.erase(job);
      if (Clock::now() - copy.since > kWaitWorthAWord)
        control.waits = text(job) + " has not been started yet; see: tranche why " + text(job);
      continue;
    }
    (copy.ready ? ready : starting).insert(job);
    if (copy.ready) {
      check_one(service, control, copy, picture.spec);
    } else {
      probe_one(service, control, copy, picture.spec);
    }
  }
  std::erase_if(control.probes, [&](const auto& entry) { return entry.second.is_good; });
  keep_only(control.probes, starting);
  keep_only(control.checks, ready);
  std::erase_if(control.silent, [&](JobId job) { return !starting.contains(job) && !ready.contains(job); });
}

// One that is not ready.
void Gateway::probe_one(const std::shared_ptr<LiveService>& service,
                        Control& control,
                        const Copy& copy,
                        const wire::ServiceSpec& spec) {
  const JobId job = copy.facts.job;
  const bool is_silent = control.silent.contains(job);
  const Duration patience = is_silent ? kChecksSilent * check_interval(spec) : spec.start_timeout;
  if (Clock::now() - copy.since > patience) {
    control.status =
        text(job) + (is_silent ? " answers no more, and is replaced; see: tranche logs " + text(job)
                               : " did not become ready in time");
    ++control.failures;
    control.not_before = Clock::now() + (is_silent ? 0ms : backoff(control.failures));
    control.silent.erase(job);
    service->drain(job);
    return;
  }
  Probe& probe = control.probes[job];
  if (!probe.is_good) {
    if (!std::exchange(probe.is_asked, true)) ask_whether_ready(service, copy, spec.ready);
    return;
  }
  control.failures = 0;
  control.status.clear();
  control.seen_ready.insert(job);
  control.silent.erase(job);
  service->set_ready(job, true);
}

// One that was ready. Whoever answers requests shows by it that it lives, and may have no hand free to say
// so: those that have none, or fail them, are asked.
void Gateway::check_one(const std::shared_ptr<LiveService>& service,
                        Control& control,
                        const Copy& copy,
                        const wire::ServiceSpec& spec) {
  const JobId job = copy.facts.job;
  const auto now = Clock::now();
  const auto [entry, is_new] = control.checks.try_emplace(job);
  Check& check = entry->second;
  if (is_new) check.next = now + check_interval(spec);
  if (check.failed >= kChecksFailed) {
    const bool is_silent = check.status == 0;
    if (is_silent) control.silent.insert(job);
    control.status = text(job) + " gets no requests: " + spec.ready +
                     (is_silent ? " is not answered" : " answers " + std::to_string(check.status));
    return service->set_ready(job, false);
  }
  if (check.is_asked || now < check.next || (copy.active > 0 && !copy.resting)) return;
  check.is_asked = true;
  check.next = now + check_interval(spec);
  ask_whether_ready(service, copy, spec.ready);
}

// Beside this thread: a replica that hangs delays nobody but itself.
void Gateway::ask_whether_ready(const std::shared_ptr<LiveService>& service,
                                const Copy& copy,
                                const std::string& path) {
  prober_->ask(copy.facts.target, path, kProbePatience, [this, service, job = copy.facts.job](int status) {
    const std::lock_guard lock(mutex_);
    probe_answers_.push_back({service, job, status});
    if (status / 100 != 2) return;  // Asked again in the next turn; there is no hurry.
    changed_ = true;
    wake_.notify_one();
  });
}

void Gateway::take_probes() {
  std::vector<ProbeAnswer> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(probe_answers_);
  }
  for (const ProbeAnswer& answer : answers) {
    const auto found = controls_.find(answer.service);
    if (found == controls_.end()) continue;
    Control& control = found->second;
    const bool is_good = answer.status / 100 == 2;
    if (const auto probe = control.probes.find(answer.job); probe != control.probes.end())
      probe->second = {.is_asked = false, .is_good = is_good};
    if (const auto check = control.checks.find(answer.job); check != control.checks.end()) {
      check->second.is_asked = false;
      check->second.failed = is_good ? 0 : check->second.failed + 1;
      check->second.status = answer.status;
    }
  }
}

}  // namespace tranche::gateway
