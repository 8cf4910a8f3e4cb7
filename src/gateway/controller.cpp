// SPDX-License-Identifier: Apache-2.0
// Keeps as many replicas as each service needs: starts, replaces, drains, retires.
#include <algorithm>

#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "gateway/gateway.hpp"

namespace tranche::gateway {
namespace {

using namespace std::chrono_literals;
using Copy = LiveService::Copy;

constexpr auto kTurn = 100ms, kTurnWhileStarting = 10ms;
constexpr auto kCountEvery = 5s;
constexpr std::uint64_t kEnoughToJudge = 20;  // Requests, for a percentile to mean something.

std::uint64_t next_gateway() {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1);
}

}  // namespace

Gateway::Gateway(server::Loop& loop, const server::AgentHub& hub, GatewayOptions options)
    : loop_(loop),
      hub_(hub),
      options_(std::move(options)),
      forwarder_(options_.sealed),
      number_(next_gateway()),
      prober_(std::make_unique<net::Prober>(options_.sealed)) {
  loop_.follow([this](const server::Durable& durable) { follow(durable); });
}

Gateway::~Gateway() {
  stop();
}

void Gateway::start(std::string url) {
  options_.url = std::move(url);
  loop_.read([this](const engine::State& state) {
    note_callers(state);
    learn(state);
  });
  thread_ = std::thread([this] { run(); });
}

void Gateway::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  prober_.reset();
  std::shared_ptr<const Directory> services;
  {
    const std::lock_guard lock(mutex_);
    services = directory_;
  }
  for (const auto& [name, listed] : *services) listed.service->close();
  forwarder_.close();
}

void Gateway::run() {
  for (;;) {
    const bool starting = std::any_of(
        controls_.begin(), controls_.end(), [](const auto& one) { return !one.second.probes.empty(); });
    std::vector<std::shared_ptr<LiveService>> services;
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, starting ? kTurnWhileStarting : kTurn, [this] { return stopping_ || changed_; });
      changed_ = false;
      last = stopping_;
      for (const auto& [name, listed] : *directory_) services.push_back(listed.service);
    }
    learn_again_when_due();
    take_answers();
    take_probes();
    for (const auto& service : services) {
      if (last) {
        flush_counts(*service);
        continue;
      }
      service->expire_waiters();
      Control& control = controls_[service];
      steer(service, control);
      service->set_status(control.status.empty() ? control.waits : control.status);
    }
    if (last) return;
    std::erase_if(controls_, [&](const auto& entry) {
      return std::find(services.begin(), services.end(), entry.first) == services.end();
    });
    std::this_thread::sleep_for(1ms);  // However fast requests come, they do not make this a busy loop.
  }
}

std::chrono::milliseconds Gateway::backoff(std::uint32_t failures) {
  return std::min<std::chrono::milliseconds>(500ms * (1U << std::min(failures, 7U)), 60s);
}

void Gateway::take_answers() {
  std::vector<std::pair<std::shared_ptr<LiveService>, std::string>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [service, problem] : answers) {
    const auto found = controls_.find(service);
    if (found == controls_.end()) continue;  // Removed meanwhile.
    Control& control = found->second;
    control.adding = false;
    if (problem.empty()) continue;
    ++control.failures;
    control.status = "no replica: " + problem;
    control.not_before = Clock::now() + backoff(control.failures);
  }
}

// Replicas that ended without being asked to: after each that never served, a longer pause.
void Gateway::notice_ends(Control& control, const LiveService::Picture& picture) {
  std::set<JobId> known;
  for (const Copy& copy : picture.copies)
    if (!copy.facts.retiring && !copy.draining) known.insert(copy.facts.job);
  for (const JobId job : control.known) {
    const bool is_there = std::any_of(picture.copies.begin(), picture.copies.end(), [&](const Copy& copy) {
      return copy.facts.job == job;
    });
    if (is_there) continue;
    const bool served = control.seen_ready.erase(job) > 0;
    if (!served) ++control.failures;
    control.not_before = Clock::now() + (served ? 0ms : backoff(control.failures));
    control.status = text(job) + " ended; see: tranche logs " + text(job);
  }
  control.known = std::move(known);
}

// The latency objective against what was measured; the status says when it is missed.
bool Gateway::notice_lateness(Control& control, const LiveService::Picture& picture) {
  const auto& objective = picture.spec.objective;
  const bool is_late =
      objective && picture.latency.requests >= kEnoughToJudge && picture.latency.p99 > objective->p99;
  if (is_late)
    control.status =
        "p99 is " + text(readable(picture.latency.p99)) + ", the objective " + text(objective->p99);
  if (!is_late && control.is_late) control.status.clear();
  control.is_late = is_late;
  return is_late;
}

void Gateway::steer(const std::shared_ptr<LiveService>& service, Control& control) {
  probe(service, control, service->picture());
  const LiveService::Picture picture = service->picture();
  notice_ends(control, picture);
  const policy::ScalingBounds bounds{.min = picture.spec.replicas.min,
                                     .max = picture.spec.replicas.max,
                                     .concurrency = picture.spec.concurrency,
                                     .idle = picture.spec.idle,
                                     .delay = picture.spec.scale.target};
  policy::ScalingDemand demand{.in_flight = picture.active + picture.queued,
                               .last_request = picture.last_request,
                               .waited = picture.waited,
                               .is_late = notice_lateness(control, picture)};
  for (const Copy& copy : picture.copies)
    demand.ready += copy.ready && !copy.draining && !copy.facts.retiring ? 1U : 0U;
  const std::uint32_t wanted = control.scaling.wanted(bounds, demand, wall_clock());
  // Every version gets its part by weight, and one at least while there is anything.
  std::uint64_t weights = 0;
  for (const auto& version : picture.spec.versions) weights += version.weight;
  for (const wire::ServiceVersion& version : picture.spec.versions) {
    std::uint32_t part = 0;
    if (wanted > 0 && version.weight > 0)
      part = std::max<std::uint32_t>(
          1, static_cast<std::uint32_t>((std::uint64_t{wanted} * version.weight + weights / 2) / weights));
    steer_version(service, control, picture, version.name, part);
  }
  retire_drained(*service, picture);
  if (Clock::now() - control.counted > kCountEvery) {
    control.counted = Clock::now();
    flush_counts(*service);
  }
}

void Gateway::steer_version(const std::shared_ptr<LiveService>& service,
                            Control& control,
                            const LiveService::Picture& picture,
                            const std::string& version,
                            std::uint32_t part) {
  std::vector<const Copy*> current, stale;
  std::size_t ready = 0, live = 0;
  for (const Copy& copy : picture.copies) {
    live += copy.facts.retiring ? 0U : 1U;
    if (copy.facts.version != version || copy.facts.retiring || copy.draining) continue;
    (copy.facts.stale ? stale : current).push_back(&copy);
    ready += copy.ready && !copy.facts.stale ? 1U : 0U;
  }
  const bool room = live < picture.spec.replicas.max + picture.spec.versions.size();
  if (current.size() < part && room && !control.adding && Clock::now() >= control.not_before)
    add(service, version, control);
  if (current.size() > part) {  // The idlest goes first.
    const Copy* idlest = *std::min_element(current.begin(), current.end(), [](const Copy* a, const Copy* b) {
      return std::pair(a->ready, a->active) < std::pair(b->ready, b->active);
    });
    service->drain(idlest->facts.job);
  }
  // Those that run something older go one by one, as what replaces them becomes ready.
  for (std::size_t i = 0; i < stale.size() && ready + stale.size() - i > part; ++i)
    service->drain(stale[i]->facts.job);
}

void Gateway::retire_drained(LiveService& service, const LiveService::Picture& picture) {
  const auto now = Clock::now();
  for (const Copy& copy : picture.copies) {
    const auto& versions = picture.spec.versions;
    const bool named = std::any_of(
        versions.begin(), versions.end(), [&](const auto& one) { return one.name == copy.facts.version; });
    if (!named) service.drain(copy.facts.job);
    const bool over = copy.active == 0 || now - copy.draining_since > picture.spec.drain;
    if (copy.draining && !copy.facts.retiring && over) retire(service.key(), copy.facts.job);
  }
}

void Gateway::add(const std::shared_ptr<LiveService>& service, const std::string& version, Control& control) {
  control.adding = true;
  loop_.submit({.origin = "gateway"},
               engine::AddReplica{service->key(), version},
               [this, service](const server::Outcome& outcome) {
                 const bool refused = outcome.refusal != nullptr;
                 std::string problem = refused ? outcome.refusal->message : "";
                 if (outcome.fault != server::Fault::kNone) problem = "the server cannot write now";
                 const std::lock_guard lock(mutex_);
                 answers_.emplace_back(service, std::move(problem));
                 changed_ = true;
                 wake_.notify_one();
               });
}

void Gateway::retire(const engine::ServiceKey& key, JobId job) {
  loop_.submit({.origin = "gateway"}, engine::RetireReplica{key, job}, [](const server::Outcome&) {});
}

void Gateway::flush_counts(LiveService& service) {
  const engine::ServiceUse use = service.take_use();
  if (use.requests == 0 && use.judged == 0) return;
  loop_.submit(
      {.origin = "gateway"}, engine::CountRequests{service.key(), use}, [](const server::Outcome&) {});
}

}  // namespace tranche::gateway
