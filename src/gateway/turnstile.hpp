// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who goes on first of those who arrived at one thread of the gateway. While several tenants call, a turn of
// the thread lets in only so many requests that the next turn comes soon, and the tenants take turns: a flood
// waits behind itself, whatever service it asks for. And while the machine has no processor to spare, a flood
// of short requests has only so many under way at once that the others' are not kept waiting: what it has
// under way is worked on by replicas, doors and the kernel, where nobody takes turns. A tenant that is alone
// passes at once. Thread-safe; never blocks.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/ids.hpp"

namespace tranche::gateway {

class Turnstile {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;
  // How long the thread had to wait for a processor since it was asked last.
  using Pressure = std::function<std::chrono::nanoseconds()>;

  // Somebody who waits, and what he does once he is let in.
  class Ticket {
   public:
    virtual ~Ticket() = default;
    virtual void go() = 0;
    Clock::time_point let_in{};
    bool among_few = false;  // Few of its tenant were under way then.
  };

  // `ask_for_turn` has turn() called when the thread has done what it has to do now; it must not call it
  // itself.
  explicit Turnstile(
      std::function<void(Turnstile&)> ask_for_turn,
      Pressure pressure = [] { return std::chrono::nanoseconds{}; },
      Now now = &Clock::now)
      : ask_for_turn_(std::move(ask_for_turn)), pressure_(std::move(pressure)), now_(std::move(now)) {}

  enum class Entry { kGo, kWaits, kFull };
  Entry enter(PartyId tenant, const std::shared_ptr<Ticket>& ticket);
  // Once for everybody who was let in, at the end of what he did.
  void leave(PartyId tenant, const Ticket& ticket);
  void turn();

  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Lane {
    std::deque<std::shared_ptr<Ticket>> waiting{};
    std::size_t inside = 0;
    std::size_t credit = 0;  // How many more it may send in before the next tenant's turn.
    Clock::time_point seen{};
    Clock::duration stay{};  // How long one of them stays while few are under way.
    std::size_t stays = 0;   // That this is known from.
    Clock::time_point slow_until{};
    [[nodiscard]] std::size_t at_once() const { return inside + waiting.size(); }
  };
  using Lanes = std::map<PartyId, Lane>;

  void look_around(Clock::time_point now);
  void begin_turn(Clock::time_point now);
  void resize_budget(Clock::duration lasted);
  void resize_window(Clock::time_point now);
  [[nodiscard]] std::size_t weight(const Lane& lane) const;
  [[nodiscard]] bool is_light(const Lane& lane) const;
  [[nodiscard]] bool has_room(const Lane& lane, Clock::time_point now) const;
  void let_in_one(Lane& lane, Ticket& ticket, Clock::time_point now);
  void serve(std::vector<std::shared_ptr<Ticket>>& let_in, Clock::time_point now);
  void move_on(Lanes::iterator from);

  const std::function<void(Turnstile&)> ask_for_turn_;
  const Pressure pressure_;
  const Now now_;
  mutable std::mutex mutex_;
  Lanes lanes_;
  PartyId current_{};         // Whose turn it is.
  bool is_credited_ = false;  // It has got its credit for this visit.
  bool contended_ = false;    // More than one tenant called lately.
  bool asked_ = false;        // A turn will come.
  std::size_t lightest_ = 0;  // Requests at once of the tenant with the fewest.
  std::size_t waiting_ = 0;
  std::size_t budget_ = 1024;  // Let in during one turn; follows how long turns last.
  std::size_t room_ = 0;       // Left of it.
  std::size_t window_ = 1024;  // Under way at once, of a tenant that floods; follows the pressure.
  Clock::time_point turn_began_{};
  Clock::time_point looked_{}, weighed_{};
};

}  // namespace tranche::gateway
