// SPDX-License-Identifier: Apache-2.0
#include "gateway/turnstile.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <utility>

namespace tranche::gateway {
namespace {

using namespace std::chrono_literals;
using Clock = Turnstile::Clock;
using Entry = Turnstile::Entry;

constexpr PartyId kCalm = PartyId::make(PartyKind::kTenant, 1);
constexpr PartyId kFlood = PartyId::make(PartyKind::kTenant, 2);

// One thread that reads requests in the order they arrived and answers them, and clients who send the next
// request when they have their answer. Time passes only through work.
class Model {
 public:
  explicit Model(bool is_fair = true) : is_fair_(is_fair) {}

  void connect(PartyId tenant, int clients) {
    for (int i = 0; i < clients; ++i) arrivals_.push_back({tenant, now_});
  }
  void run(Clock::duration length) {
    const auto until = now_ + length;
    while (now_ < until) {
      for (std::size_t i = std::min<std::size_t>(arrivals_.size(), kReadiesInATurn); i > 0; --i) {
        const Arrival arrival = arrivals_.front();
        arrivals_.pop_front();
        now_ += kReading;
        auto ticket = std::make_shared<Request>(*this, arrival);
        if (!is_fair_ || turnstile_.enter(arrival.tenant, ticket) == Entry::kGo) ticket->go();
      }
      if (std::exchange(asked_, false)) turnstile_.turn();
    }
  }
  [[nodiscard]] std::size_t answers(PartyId tenant) { return latencies_[tenant].size(); }
  [[nodiscard]] double p99(PartyId tenant) {  // In milliseconds.
    auto& all = latencies_[tenant];
    std::sort(all.begin(), all.end());
    return std::chrono::duration<double, std::milli>(all.at(all.size() * 99 / 100)).count();
  }
  void forget() { latencies_.clear(); }

 private:
  static constexpr std::size_t kReadiesInATurn = 128;
  static constexpr auto kReading = 15us, kAnswering = 85us;
  struct Arrival {
    PartyId tenant{};
    Clock::time_point at{};
  };
  struct Request final : Turnstile::Ticket {
    Request(Model& of, Arrival which) : model(of), arrival(which) {}
    void go() override {
      model.now_ += kAnswering;
      model.latencies_[arrival.tenant].push_back(model.now_ - arrival.at);
      model.arrivals_.push_back({arrival.tenant, model.now_});
      if (model.is_fair_) model.turnstile_.leave(arrival.tenant, *this);
    }
    Model& model;
    Arrival arrival;
  };

  bool is_fair_;
  Clock::time_point now_{std::chrono::hours(1)};
  bool asked_ = false;
  Turnstile turnstile_{[this](Turnstile&) { asked_ = true; },
                       [] { return std::chrono::nanoseconds{}; },
                       [this] { return now_; }};
  std::deque<Arrival> arrivals_;
  std::map<PartyId, std::vector<Clock::duration>> latencies_;
};

double slowdown(bool is_fair, int calm, int flood) {
  Model model(is_fair);
  model.connect(kCalm, calm);
  model.run(1s);
  model.forget();
  model.run(4s);
  const double alone = model.p99(kCalm);
  model.connect(kFlood, flood);
  model.run(1s);
  model.forget();
  model.run(4s);
  return model.p99(kCalm) / alone;
}

TEST_CASE("turnstile: a flood through the same thread does not slow down another tenant") {
  CHECK(slowdown(false, 100, 1900) > 10);  // The model is one in which it would.
  CHECK(slowdown(true, 100, 1900) < 1.3);
}

// What is under way shares one processor, a little each in turn, with nobody who minds whose it is; and what
// it needs of it is all the time it takes.
class CrowdedModel {
 public:
  explicit CrowdedModel(bool is_pressed, Clock::duration resting = {})
      : is_pressed_(is_pressed), resting_(resting) {}

  void connect(PartyId tenant, int clients) {
    for (int i = 0; i < clients; ++i) arrive(tenant);
  }
  void run(Clock::duration length) {
    const auto until = now_ + length;
    while (now_ < until) {
      now_ += kQuantum;
      if (std::exchange(asked_, false)) turnstile_.turn();
      while (!resting_until_.empty() && resting_until_.front().first <= now_) {
        working_.push_back(resting_until_.front().second);
        resting_until_.pop_front();
      }
      if (working_.empty()) continue;
      const auto request = working_.front();
      working_.pop_front();
      if (--request->quanta > 0) {
        working_.push_back(request);
        continue;
      }
      latencies_[request->tenant].push_back(now_ - request->at);
      turnstile_.leave(request->tenant, *request);
      arrive(request->tenant);
    }
  }
  [[nodiscard]] double p99(PartyId tenant) {
    auto& all = latencies_[tenant];
    std::sort(all.begin(), all.end());
    return std::chrono::duration<double, std::milli>(all.at(all.size() * 99 / 100)).count();
  }
  [[nodiscard]] std::size_t answers(PartyId tenant) { return latencies_[tenant].size(); }
  void forget() { latencies_.clear(); }

 private:
  static constexpr auto kQuantum = 20us;
  struct Request final : Turnstile::Ticket, std::enable_shared_from_this<Request> {
    Request(CrowdedModel& of, PartyId whose) : model(of), tenant(whose), at(of.now_) {}
    void go() override { model.begin(*this); }
    CrowdedModel& model;
    PartyId tenant;
    Clock::time_point at;
    int quanta = 5;
  };
  void arrive(PartyId tenant) {
    auto request = std::make_shared<Request>(*this, tenant);
    if (turnstile_.enter(tenant, request) == Entry::kGo) request->go();
  }
  void begin(Request& request) { resting_until_.emplace_back(now_ + resting_, request.shared_from_this()); }
  std::chrono::nanoseconds waited() {
    const auto since = now_ - std::exchange(asked_at_, now_);
    return is_pressed_ ? since / 2 : Clock::duration{};
  }

  const bool is_pressed_;
  const Clock::duration resting_;  // For something else than the processor, before it needs that.
  Clock::time_point now_{std::chrono::hours(1)}, asked_at_ = now_;
  bool asked_ = false;
  Turnstile turnstile_{
      [this](Turnstile&) { asked_ = true; }, [this] { return waited(); }, [this] { return now_; }};
  std::deque<std::shared_ptr<Request>> working_;
  std::deque<std::pair<Clock::time_point, std::shared_ptr<Request>>> resting_until_;
  std::map<PartyId, std::vector<Clock::duration>> latencies_;
};

double crowded_slowdown(bool is_pressed) {
  CrowdedModel model(is_pressed);
  model.connect(kCalm, 100);
  model.run(1s);
  model.forget();
  model.run(2s);
  const double alone = model.p99(kCalm);
  model.connect(kFlood, 1900);
  model.run(1s);
  model.forget();
  model.run(4s);
  CHECK(model.answers(kFlood) * 40 > model.answers(kCalm));  // It goes on, too.
  return model.p99(kCalm) / alone;
}

TEST_CASE("turnstile: while processors are short, a flood has few requests under way") {
  CHECK(crowded_slowdown(false) > 2);  // The model is one in which it would do harm.
  CHECK(crowded_slowdown(true) < 1.3);
}

TEST_CASE("turnstile: requests that wait for something else than a processor are not held back") {
  CrowdedModel model(true, 500ms);
  model.connect(kCalm, 10);
  model.connect(kFlood, 1000);
  model.run(2s);
  model.forget();
  model.run(5s);
  // A thousand clients with half a second of rest each: almost two thousand a second.
  CHECK(model.answers(kFlood) > 8'000);
}

TEST_CASE("turnstile: a flood still gets its part") {
  Model model;
  model.connect(kCalm, 100);
  model.connect(kFlood, 1900);
  model.run(5s);
  CHECK(model.answers(kFlood) * 12 > model.answers(kCalm));
}

TEST_CASE("turnstile: tenants that ask for as much get as much") {
  Model model;
  model.connect(kCalm, 300);
  model.connect(kFlood, 300);
  model.run(5s);
  const double ratio = static_cast<double>(model.answers(kCalm)) / static_cast<double>(model.answers(kFlood));
  CHECK(ratio > 0.95);
  CHECK(ratio < 1.05);
}

TEST_CASE("turnstile: somebody with one request at a time waits for about a turn") {
  Model model;
  model.connect(kFlood, 1000);
  model.connect(kCalm, 1);
  model.run(1s);
  model.forget();
  model.run(2s);
  CHECK(model.p99(kCalm) < 5);
}

struct Nobody final : Turnstile::Ticket {
  void go() override { gone = true; }
  bool gone = false;
};

TEST_CASE("turnstile: whoever is alone passes at once, however many") {
  int turns = 0;
  Turnstile turnstile([&](Turnstile&) { ++turns; });
  for (int i = 0; i < 10'000; ++i) CHECK(turnstile.enter(kFlood, std::make_shared<Nobody>()) == Entry::kGo);
  CHECK(turns == 0);
}

TEST_CASE("turnstile: a queue has an end, and those in it go on when nobody else has called for a while") {
  Clock::time_point now{1h};
  Turnstile turnstile([](Turnstile&) {}, [] { return std::chrono::nanoseconds{}; }, [&] { return now; });
  const auto first = std::make_shared<Nobody>();
  CHECK(turnstile.enter(kCalm, first) == Entry::kGo);
  turnstile.leave(kCalm, *first);
  const auto waits = std::make_shared<Nobody>();
  Entry entry = Entry::kGo;
  std::size_t passed = 0;
  while ((entry = turnstile.enter(kFlood, waits)) != Entry::kFull) passed += entry == Entry::kGo ? 1 : 0;
  CHECK(passed > 0);
  CHECK(turnstile.waiting() == 4096);
  CHECK_FALSE(waits->gone);
  CHECK(turnstile.enter(kCalm, waits) == Entry::kWaits);  // Another's queue is not full.
  now += 11s;
  turnstile.turn();
  CHECK(turnstile.waiting() < 4097);
  for (int i = 0; i < 10'000 && turnstile.waiting() > 0; ++i) {
    for (int left = 0; left < 2000; ++left) turnstile.leave(kCalm, *first);
    turnstile.turn();
  }
  CHECK(turnstile.waiting() == 0);
}

}  // namespace
}  // namespace tranche::gateway
