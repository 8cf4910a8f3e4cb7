// SPDX-License-Identifier: Apache-2.0
#include "gateway/turnstile.hpp"

#include <algorithm>
#include <utility>

namespace tranche::gateway {
namespace {

using namespace std::chrono_literals;

constexpr auto kTurnGoal = 1ms;    // A request sees about two turns: one on its way in, one on its way out.
constexpr auto kRemembered = 10s;  // Who called within this is thought to call again.
constexpr auto kLookEvery = 100ms;
constexpr std::size_t kBudgetLeast = 4, kBudgetMost = 1024;
constexpr std::size_t kWaitingMost = 4096;  // Of one tenant; more are turned away.
// Few requests at once weigh this much, many less: with a weight in proportion to what it asks for, a flood
// would win. Nobody weighs less than one, so that nobody starves.
constexpr std::size_t kWeightMost = 8;
constexpr std::size_t kFew = 64;

constexpr std::size_t kWindowLeast = 4, kWindowMost = 1024;
constexpr auto kWeighEvery = 5ms;
constexpr int kPressedPart = 10;  // Waiting for a processor for a tenth of the time is pressure.
constexpr auto kAtWork = 20ms;    // Who called within this is at work, and is spared.
// Requests that take long although few are under way wait for something else than a processor of this
// machine: they are not held back. Believed for a while.
constexpr auto kLongStay = 50ms;
constexpr auto kBelieved = 60s;
constexpr std::size_t kFewInside = 16, kStaysKnown = 4;

}  // namespace

Turnstile::Entry Turnstile::enter(PartyId tenant, const std::shared_ptr<Ticket>& ticket) {
  const std::lock_guard lock(mutex_);
  const auto now = now_();
  const auto [at, is_new] = lanes_.try_emplace(tenant);
  Lane& lane = at->second;
  const bool is_back = is_new || now - lane.seen > kRemembered;
  lane.seen = now;
  if (is_back) look_around(now);
  if (contended_ && !asked_) begin_turn(now);
  if (contended_ && (waiting_ > 0 || room_ == 0 || !has_room(lane, now))) {
    if (lane.waiting.size() >= kWaitingMost) return Entry::kFull;
    lane.waiting.push_back(ticket);
    ++waiting_;
    return Entry::kWaits;
  }
  if (contended_) --room_;
  let_in_one(lane, *ticket, now);
  return Entry::kGo;
}

void Turnstile::let_in_one(Lane& lane, Ticket& ticket, Clock::time_point now) {
  ticket.let_in = now;
  ticket.among_few = ++lane.inside <= kFewInside;
}

void Turnstile::leave(PartyId tenant, const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(tenant);
  if (found == lanes_.end() || found->second.inside == 0) return;
  Lane& lane = found->second;
  const bool still_few = lane.inside-- <= kFewInside;  // Those who came in behind it did not hold it up.
  if (!contended_) return;
  const auto now = now_();
  if (ticket.among_few && still_few) {
    const auto stayed = now - ticket.let_in;
    lane.stay = lane.stays++ == 0 ? stayed : lane.stay + (stayed - lane.stay) / 4;
    if (lane.stays >= kStaysKnown && lane.stay > kLongStay) lane.slow_until = now + kBelieved;
  }
  if (waiting_ > 0 && !asked_) begin_turn(now);
}

void Turnstile::turn() {
  std::vector<std::shared_ptr<Ticket>> let_in;
  {
    const std::lock_guard lock(mutex_);
    const auto now = now_();
    asked_ = false;
    resize_budget(now - turn_began_);
    look_around(now);
    resize_window(now);
    room_ = contended_ ? budget_ : waiting_;
    serve(let_in, now);
    // Who waits for what is under way is served when that leaves.
    if (waiting_ > 0 && !let_in.empty()) {
      const std::size_t left = room_;
      begin_turn(now);
      room_ = left;
    }
  }
  for (const auto& ticket : let_in) ticket->go();
}

std::size_t Turnstile::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

void Turnstile::begin_turn(Clock::time_point now) {
  asked_ = true;
  turn_began_ = now;
  room_ = budget_;
  ask_for_turn_(*this);
}

// As many as would have fitted into the goal, had they taken as long each as those of the last turn.
void Turnstile::resize_budget(Clock::duration lasted) {
  const std::size_t used = budget_ - std::min(room_, budget_);
  if (lasted > kTurnGoal) {
    const auto fitting = static_cast<std::size_t>(static_cast<Clock::rep>(used) *
                                                  Clock::duration(kTurnGoal).count() / lasted.count());
    budget_ = std::clamp(fitting, kBudgetLeast, budget_);
  } else if (room_ == 0) {
    budget_ = std::min(budget_ + budget_ / 4 + 1, kBudgetMost);
  }
}

// Narrower while somebody light is at work and processors are short, wider again while they are not.
void Turnstile::resize_window(Clock::time_point now) {
  const auto span = now - weighed_;
  if (span < kWeighEvery) return;
  weighed_ = now;
  const auto waited = pressure_();
  std::size_t most = 0;
  bool somebody_light = false;
  for (const auto& [tenant, lane] : lanes_) {
    if (!is_light(lane)) {
      most = std::max(most, lane.inside);
    } else if (lane.at_once() > 0 || now - lane.seen < kAtWork) {
      somebody_light = true;
    }
  }
  if (!somebody_light) {
    window_ = kWindowMost;
  } else if (waited * kPressedPart > span) {
    window_ = std::max(kWindowLeast, std::min(window_, most) * 3 / 4);
  } else {
    window_ = std::min(kWindowMost, window_ + std::max<std::size_t>(1, window_ / 8));
  }
}

// Forgets who has not called for a while, and sees who is left.
void Turnstile::look_around(Clock::time_point now) {
  if (now - looked_ > kLookEvery) {
    looked_ = now;
    std::erase_if(lanes_, [&](const auto& entry) {
      return entry.second.at_once() == 0 && now - entry.second.seen > kRemembered;
    });
  }
  std::size_t callers = 0;
  lightest_ = 0;
  for (const auto& [tenant, lane] : lanes_) {
    if (lane.at_once() == 0 && now - lane.seen > kRemembered) continue;
    lightest_ = callers++ == 0 ? lane.at_once() : std::min(lightest_, lane.at_once());
  }
  contended_ = callers > 1;
}

// Halved for every doubling beyond a few, or beyond what the lightest asks for.
std::size_t Turnstile::weight(const Lane& lane) const {
  std::size_t weight = kWeightMost;
  for (std::size_t few = std::max(kFew, lightest_); weight > 1 && few < lane.at_once(); few *= 2) weight /= 2;
  return weight;
}

bool Turnstile::is_light(const Lane& lane) const {
  return weight(lane) == kWeightMost;
}

bool Turnstile::has_room(const Lane& lane, Clock::time_point now) const {
  return lane.inside < window_ || now < lane.slow_until || is_light(lane);
}

void Turnstile::serve(std::vector<std::shared_ptr<Ticket>>& let_in, Clock::time_point now) {
  std::size_t in_vain = 0;  // Lanes in a row that sent nobody in.
  while (room_ > 0 && waiting_ > 0 && in_vain <= lanes_.size()) {
    auto at = lanes_.lower_bound(current_);
    if (at == lanes_.end()) at = lanes_.begin();
    if (at->first != std::exchange(current_, at->first)) is_credited_ = false;
    Lane& lane = at->second;
    if (!std::exchange(is_credited_, true)) lane.credit = weight(lane);
    ++in_vain;
    while (lane.credit > 0 && room_ > 0 && !lane.waiting.empty() && has_room(lane, now)) {
      let_in_one(lane, *lane.waiting.front(), now);
      let_in.push_back(std::move(lane.waiting.front()));
      lane.waiting.pop_front();
      --lane.credit;
      --room_;
      --waiting_;
      in_vain = 0;
    }
    if (lane.credit == 0 || lane.waiting.empty() || !has_room(lane, now)) move_on(at);
  }
}

void Turnstile::move_on(Lanes::iterator from) {
  const auto next = std::next(from);
  current_ = next == lanes_.end() ? lanes_.begin()->first : next->first;
  is_credited_ = false;
}

}  // namespace tranche::gateway
