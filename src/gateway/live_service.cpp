// SPDX-License-Identifier: Apache-2.0
#include "gateway/live_service.hpp"

#include <algorithm>

#include "base/wall_clock.hpp"

namespace tranche::gateway {
namespace {

constexpr std::uint32_t kFailuresToOpen = 3;
constexpr std::chrono::milliseconds kOpenFirst{500}, kOpenMost{30'000};
constexpr std::size_t kCallersRemembered = 10'000;
constexpr std::size_t kVersionsMost = 16;  // As a service file may have.
constexpr std::chrono::seconds kRecent{5};

}  // namespace

std::uint64_t LiveService::revision() const {
  const std::lock_guard lock(mutex_);
  return revision_;
}

void LiveService::configure(wire::ServiceSpec spec, PartyId owner, std::uint64_t revision) {
  const std::lock_guard lock(mutex_);
  revision_ = revision;
  spec_ = std::move(spec);
  if (spec_.versions.size() > kVersionsMost) spec_.versions.resize(kVersionsMost);
  owner_ = owner;
  place_versions();
}

LiveService::Access LiveService::access() const {
  const std::lock_guard lock(mutex_);
  const Callers callers = spec_.personal ? Callers::kOwner
                          : spec_.open   ? Callers::kEverybody
                                         : Callers::kTenant;
  return {.callers = callers, .owner = owner_, .keeps_path = spec_.keep_path};
}

net::ForwardOptions LiveService::forward_options() const {
  const std::lock_guard lock(mutex_);
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(spec_.timeout);
  return {.first_byte = patience, .between_bytes = patience};
}

void LiveService::know(const std::vector<ReplicaFacts>& facts) {
  std::vector<std::pair<Granted, std::optional<Pick>>> served;
  {
    const std::lock_guard lock(mutex_);
    std::vector<Slot> slots;
    for (const ReplicaFacts& one : facts) {
      Slot slot;
      if (Slot* before = slot_of(one.job)) slot = std::move(*before);
      if (slot.copy.since == Clock::time_point{}) slot.copy.since = now_();
      slot.copy.facts = one;
      if (one.target.port == 0) slot.copy.ready = false;
      slots.push_back(std::move(slot));
    }
    slots_ = std::move(slots);
    place_versions();
    served = serve_waiters();
  }
  for (auto& [granted, pick] : served) granted(std::move(pick));
}

void LiveService::set_ready(JobId job, bool ready) {
  std::vector<std::pair<Granted, std::optional<Pick>>> served;
  {
    const std::lock_guard lock(mutex_);
    if (Slot* slot = slot_of(job)) slot->copy.ready = ready;
    served = serve_waiters();
  }
  for (auto& [granted, pick] : served) granted(std::move(pick));
}

void LiveService::drain(JobId job) {
  const std::lock_guard lock(mutex_);
  Slot* slot = slot_of(job);
  if (slot == nullptr || slot->copy.draining) return;
  slot->copy.draining = true;
  slot->copy.draining_since = now_();
}

LiveService::Slot* LiveService::slot_of(JobId job) {
  const auto found = std::find_if(
      slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.copy.facts.job == job; });
  return found == slots_.end() ? nullptr : &*found;
}

bool LiveService::takes(const Slot& slot, Clock::time_point now) const {
  const Copy& copy = slot.copy;
  return copy.ready && !copy.draining && !copy.facts.retiring && copy.active < spec_.concurrency &&
         now >= slot.closed_until;
}

// The version by weight, among those that have room; then the less busy of two drawn at random.
std::optional<Pick> LiveService::pick(const Tried& tried) {
  const auto now = now_();
  std::array<std::uint32_t, kVersionsMost> able{};
  const auto fits = [&](const Slot& slot) {
    return slot.version < spec_.versions.size() && takes(slot, now) && !tried.contains(slot.copy.facts.job);
  };
  for (const Slot& slot : slots_)
    if (fits(slot)) ++able[slot.version];
  std::uint64_t weights = 0;
  for (std::size_t i = 0; i < spec_.versions.size(); ++i)
    weights += able[i] > 0 ? spec_.versions[i].weight : 0;
  if (weights == 0) return std::nullopt;
  std::uint64_t drawn = random_.below(weights);
  std::size_t version = 0;
  for (; able[version] == 0 || drawn >= spec_.versions[version].weight; ++version)
    drawn -= able[version] > 0 ? spec_.versions[version].weight : 0;
  const std::uint64_t first = random_.below(able[version]), second = random_.below(able[version]);
  Slot* best = nullptr;
  std::uint64_t number = 0;
  for (Slot& slot : slots_) {
    if (slot.version != version || !fits(slot)) continue;
    const bool is_drawn = number == first || number == second;
    ++number;
    if (is_drawn && (best == nullptr || slot.copy.active < best->copy.active)) best = &slot;
  }
  ++best->copy.active;
  return Pick{best->copy.facts.job, best->copy.facts.version, best->copy.facts.target};
}

void LiveService::place_versions() {
  for (Slot& slot : slots_) {
    const auto found = std::find_if(spec_.versions.begin(), spec_.versions.end(), [&](const auto& version) {
      return version.name == slot.copy.facts.version;
    });
    slot.version = static_cast<std::size_t>(found - spec_.versions.begin());
  }
}

bool LiveService::allowed(PartyId caller) {
  if (spec_.requests_per_second == 0) return true;
  const auto now = now_();
  const std::int64_t most = std::int64_t{spec_.requests_per_second} * 1000;
  if (buckets_.size() > kCallersRemembered) buckets_.clear();
  const auto [at, fresh] = buckets_.try_emplace(caller, Bucket{most, now});
  Bucket& bucket = at->second;
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - bucket.at);
  if (passed.count() > 0) {
    bucket.milli = std::min(most, bucket.milli + passed.count() * spec_.requests_per_second);
    bucket.at += passed;
  }
  if (bucket.milli < 1000) return false;
  bucket.milli -= 1000;
  return true;
}

LiveService::Entry LiveService::enter(PartyId caller, const Tried& tried, Granted granted) {
  std::optional<Pick> picked;
  {
    const std::lock_guard lock(mutex_);
    last_request_ = wall_clock();
    if (closed_) return Entry::kFull;
    if (tried.count() == 0 && !allowed(caller)) return Entry::kTooFast;
    const auto mine = queues_.find(caller);
    // Whoever waits goes first, unless this caller has nobody waiting and there is room for both.
    if (queued_ == 0 || mine == queues_.end()) picked = pick(tried);
    if (!picked) {
      const std::size_t callers = queues_.size() + (mine == queues_.end() ? 1 : 0);
      const std::size_t own = mine == queues_.end() ? 0 : mine->second.size();
      const bool full = queued_ >= spec_.queue && own >= std::max<std::size_t>(1, spec_.queue / callers);
      if (full || own >= spec_.queue) return Entry::kFull;
      const bool is_in_line =
          std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.copy.ready; });
      queues_[caller].push_back({tried, std::move(granted), now_(), is_in_line});
      ++queued_;
      return Entry::kWaits;
    }
  }
  granted(std::move(picked));
  return Entry::kGranted;
}

// In turn over the callers, so that each gets its part however long the others' queues are.
std::vector<std::pair<LiveService::Granted, std::optional<Pick>>> LiveService::serve_waiters() {
  std::vector<std::pair<Granted, std::optional<Pick>>> served;
  while (queued_ > 0) {
    auto next = queues_.upper_bound(last_served_);
    if (next == queues_.end()) next = queues_.begin();
    Waiting& first = next->second.front();
    auto picked = pick(first.tried);
    if (!picked && first.tried.count() > 0) picked = pick({});  // Rather one that failed it before than none.
    if (!picked) break;
    if (first.is_in_line) waited_.add(now_() - first.since, now_());
    served.emplace_back(std::move(first.granted), std::move(picked));
    last_served_ = next->first;
    next->second.pop_front();
    if (next->second.empty()) queues_.erase(next);
    --queued_;
  }
  return served;
}

void LiveService::leave(const Pick& pick, Outcome outcome) {
  std::vector<std::pair<Granted, std::optional<Pick>>> served;
  {
    const std::lock_guard lock(mutex_);
    if (Slot* slot = slot_of(pick.job)) {
      if (slot->copy.active > 0) --slot->copy.active;
      if (outcome == Outcome::kGood) slot->failures = 0;
      // What was on its way when it was closed tells nothing new: a thousand failures at once are one.
      const auto now = now_();
      if (outcome == Outcome::kBad && now >= slot->closed_until && ++slot->failures >= kFailuresToOpen) {
        const auto times = std::min<std::uint32_t>(slot->failures - kFailuresToOpen, 6);
        slot->closed_until = now + std::min(kOpenFirst * (1U << times), kOpenMost);
      }
    }
    served = serve_waiters();
  }
  for (auto& [granted, picked] : served) granted(std::move(picked));
}

void LiveService::expire_waiters() {
  std::vector<Granted> late;
  std::vector<std::pair<Granted, std::optional<Pick>>> served;
  {
    const std::lock_guard lock(mutex_);
    const auto now = now_();
    for (auto queue = queues_.begin(); queue != queues_.end();) {
      while (!queue->second.empty() && now - queue->second.front().since > spec_.timeout) {
        late.push_back(std::move(queue->second.front().granted));
        queue->second.pop_front();
        --queued_;
      }
      queue = queue->second.empty() ? queues_.erase(queue) : std::next(queue);
    }
    served = serve_waiters();  // A circuit may have closed again.
  }
  for (auto& granted : late) granted(std::nullopt);
  for (auto& [granted, picked] : served) granted(std::move(picked));
}

// Those who wait hold the service, and it holds them: without this they would wait for ever.
void LiveService::close() {
  std::vector<Granted> waiting;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto& [caller, queue] : queues_)
      for (Waiting& one : queue) waiting.push_back(std::move(one.granted));
    queues_.clear();
    queued_ = 0;
  }
  for (auto& granted : waiting) granted(std::nullopt);
}

void LiveService::count(int status, std::uint64_t tokens_in, std::uint64_t tokens_out) {
  const std::lock_guard lock(mutex_);
  ++use_.requests;
  if (status == 0 || status >= 500) ++use_.failed;
  use_.tokens_in += tokens_in;
  use_.tokens_out += tokens_out;
}

void LiveService::observe(Clock::duration took, bool is_answered) {
  const std::lock_guard lock(mutex_);
  latency_.add(took, is_answered && (!spec_.objective || took <= spec_.objective->p99), now_());
}

void LiveService::RecentMost::add(Clock::duration value, Clock::time_point now) {
  const std::int64_t slice = now.time_since_epoch() / kRecent;
  if (slice != slice_) {
    before_ = slice == slice_ + 1 ? current_ : Clock::duration{};
    current_ = {};
    slice_ = slice;
  }
  current_ = std::max(current_, value);
}

Clock::duration LiveService::RecentMost::most(Clock::time_point now) const {
  const std::int64_t slice = now.time_since_epoch() / kRecent;
  if (slice == slice_) return std::max(current_, before_);
  return slice == slice_ + 1 ? current_ : Clock::duration{};
}

engine::ServiceUse LiveService::take_use() {
  const std::lock_guard lock(mutex_);
  return std::exchange(use_, {});
}

LiveService::Picture LiveService::picture() const {
  const std::lock_guard lock(mutex_);
  Picture picture{.spec = spec_, .owner = owner_, .queued = queued_, .last_request = last_request_};
  for (const Slot& slot : slots_) {
    picture.copies.push_back(slot.copy);
    picture.active += slot.copy.active;
  }
  const auto now = now_();
  picture.latency = latency_.sum(now);
  auto waited = waited_.most(now);
  for (const auto& [caller, queue] : queues_)
    if (!queue.empty() && queue.front().is_in_line) waited = std::max(waited, now - queue.front().since);
  picture.waited = std::chrono::duration_cast<Duration>(waited);
  return picture;
}

}  // namespace tranche::gateway
