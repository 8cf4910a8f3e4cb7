// SPDX-License-Identifier: Apache-2.0
#include "gateway/live_service.hpp"

#include <algorithm>
#include <cmath>

#include "base/wall_clock.hpp"

namespace tranche::gateway {
namespace {

constexpr std::uint32_t kFailuresToOpen = 3;
constexpr std::chrono::milliseconds kOpenFirst{500}, kOpenMost{30'000};
constexpr std::size_t kCallersRemembered = 10'000;
constexpr std::size_t kVersionsMost = 16;  // As a service file may have.
constexpr std::chrono::seconds kRecent{5};
constexpr std::chrono::seconds kTokensHalved{30};  // Of what a caller had.

Bucket::Size requests_size(const wire::ServiceSpec& spec) {
  return {spec.requests_per_second, std::chrono::seconds(1)};
}
Bucket::Size tokens_size(const wire::ServiceSpec& spec) {
  return {spec.tokens_per_minute, std::chrono::minutes(1)};
}

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

wire::ServiceSpec LiveService::spec() const {
  const std::lock_guard lock(mutex_);
  return spec_;
}

void LiveService::know(const std::vector<ReplicaFacts>& facts) {
  std::vector<std::pair<Granted, std::optional<Pick>>> served;
  {
    const std::lock_guard lock(mutex_);
    std::vector<Slot> slots;
    for (const ReplicaFacts& one : facts) {
      Slot slot;
      Slot* const before = slot_of(one.job);
      if (before != nullptr) slot = std::move(*before);
      const bool is_as_it_was =
          before != nullptr && (slot.copy.facts.target.port == 0) == (one.target.port == 0);
      if (!is_as_it_was) slot.copy.since = now_();
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
    if (Slot* slot = slot_of(job)) {
      if (slot->copy.ready && !ready) slot->copy.since = now_();
      slot->copy.ready = ready;
    }
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

void LiveService::set_status(std::string status) {
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
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
std::optional<Pick> LiveService::pick(PartyId caller, const Tried& tried) {
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
  ++use_of(caller).active;
  return Pick{best->copy.facts.job, best->copy.facts.version, best->copy.facts.target, caller};
}

void LiveService::place_versions() {
  for (Slot& slot : slots_) {
    const auto found = std::find_if(spec_.versions.begin(), spec_.versions.end(), [&](const auto& version) {
      return version.name == slot.copy.facts.version;
    });
    slot.version = static_cast<std::size_t>(found - spec_.versions.begin());
  }
}

LiveService::CallerUse& LiveService::use_of(PartyId caller) {
  if (callers_.size() > kCallersRemembered)
    std::erase_if(callers_, [](const auto& entry) { return entry.second.active == 0; });
  CallerUse& use = callers_[caller];
  if (spec_.fair != wire::ServiceFairness::kTokens) return use;
  const auto now = now_();
  if (now - use.faded > kTokensHalved) {
    const auto times = std::min<std::int64_t>((now - use.faded) / kTokensHalved, 60);
    use.recent_tokens = std::ldexp(use.recent_tokens, -static_cast<int>(times));
    use.faded = now;
  }
  return use;
}

bool LiveService::allowed(PartyId caller) {
  if (spec_.requests_per_second == 0 && spec_.tokens_per_minute == 0) return true;
  const auto now = now_();
  CallerUse& use = use_of(caller);
  if (spec_.tokens_per_minute > 0 && !use.tokens.has_any(tokens_size(spec_), now)) return false;
  if (spec_.requests_per_second == 0) return true;
  if (!use.requests.has_any(requests_size(spec_), now)) return false;
  use.requests.take(requests_size(spec_), 1);
  return true;
}

LiveService::TooFast LiveService::why_too_fast(PartyId caller) {
  const std::lock_guard lock(mutex_);
  const auto now = now_();
  CallerUse& use = use_of(caller);
  const auto by_tokens = use.tokens.until_any(tokens_size(spec_), now);
  const auto wait = std::max(by_tokens, use.requests.until_any(requests_size(spec_), now));
  const std::string limit = by_tokens.count() > 0
                                ? std::to_string(spec_.tokens_per_minute) + " tokens a minute"
                                : std::to_string(spec_.requests_per_second) + " requests a second";
  return {.words = "a tenant may have " + limit + " of this service, and yours had them",
          .wait = std::max(std::chrono::seconds(1), std::chrono::ceil<std::chrono::seconds>(wait))};
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
    if (queued_ == 0 || mine == queues_.end()) picked = pick(caller, tried);
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

// In turn over the callers, or who had the fewest tokens lately: those of requests under way are guessed.
std::map<PartyId, std::deque<LiveService::Waiting>>::iterator LiveService::next_queue() {
  auto next = queues_.upper_bound(last_served_);
  if (next == queues_.end()) next = queues_.begin();
  if (spec_.fair != wire::ServiceFairness::kTokens) return next;
  auto best = next;
  double fewest = -1;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const CallerUse& use = use_of(next->first);
    const double tokens = use.recent_tokens + use.active * tokens_of_a_request_;
    if (fewest < 0 || tokens < fewest) {
      fewest = tokens;
      best = next;
    }
    if (++next == queues_.end()) next = queues_.begin();
  }
  return best;
}

// Each caller gets its part however long the others' queues are.
std::vector<std::pair<LiveService::Granted, std::optional<Pick>>> LiveService::serve_waiters() {
  std::vector<std::pair<Granted, std::optional<Pick>>> served;
  while (queued_ > 0) {
    const auto next = next_queue();
    Waiting& first = next->second.front();
    auto picked = pick(next->first, first.tried);
    if (!picked && first.tried.count() > 0)
      picked = pick(next->first, {});  // Rather one that failed it before than none.
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
    if (CallerUse& use = use_of(pick.caller); use.active > 0) --use.active;
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

void LiveService::count(int status, PartyId caller, std::uint64_t tokens_in, std::uint64_t tokens_out) {
  const std::lock_guard lock(mutex_);
  if (const std::uint64_t tokens = tokens_in + tokens_out; tokens > 0) {
    CallerUse& use = use_of(caller);
    if (spec_.tokens_per_minute > 0) use.tokens.take(tokens_size(spec_), tokens);
    use.recent_tokens += static_cast<double>(tokens);
    tokens_of_a_request_ += (static_cast<double>(tokens) - tokens_of_a_request_) / 16;
  }
  ++use_.requests;
  if (status == 0 || status >= 500) ++use_.failed;
  use_.tokens_in += tokens_in;
  use_.tokens_out += tokens_out;
}

void LiveService::observe(Clock::duration took, bool is_answered) {
  const std::lock_guard lock(mutex_);
  const bool in_time = is_answered && (!spec_.objective || took <= spec_.objective->p99);
  latency_.add(took, in_time, now_());
  if (!spec_.objective) return;
  ++use_.judged;
  use_.in_time += in_time ? 1 : 0;
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
  const auto now = now_();
  for (const Slot& slot : slots_) {
    picture.copies.push_back(slot.copy);
    picture.copies.back().resting = now < slot.closed_until;
    picture.active += slot.copy.active;
  }
  picture.latency = latency_.sum(now);
  auto waited = waited_.most(now);
  for (const auto& [caller, queue] : queues_)
    if (!queue.empty() && queue.front().is_in_line) waited = std::max(waited, now - queue.front().since);
  picture.waited = std::chrono::duration_cast<Duration>(waited);
  picture.status = status_;
  return picture;
}

}  // namespace tranche::gateway
