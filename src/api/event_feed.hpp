// SPDX-License-Identifier: Apache-2.0
#pragma once
// Live events: every record, to everyone who may see it, in order, resumable by its number.
//
// All of it happens on the loop's thread, where the state that decides who may see what is at hand.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/envelope.hpp"
#include "engine/access.hpp"
#include "engine/record.hpp"
#include "net/reply.hpp"
#include "server/loop.hpp"

namespace tranche::api {

// Whether this actor may know of this event.
[[nodiscard]] bool can_see(const engine::State&, const engine::Actor&, const engine::Event&);

// An event of the exchange as one side may know it: without who is on the other, unless its rules say so.
[[nodiscard]] engine::Event without_counterparty(const engine::State&,
                                                 const engine::Actor&,
                                                 const engine::Event&);

class Api;
struct Call;

class EventFeed {
 public:
  explicit EventFeed(server::Loop& loop) : loop_(loop) {}

  // Tells one subscriber of one record; false: nobody listens any more.
  using Tell = std::function<bool(const engine::State&,
                                  const engine::Actor&,
                                  net::Stream&,
                                  std::uint64_t sequence,
                                  const Envelope&,
                                  const engine::Events&)>;
  // From the record after `last_seen` on; what is past is read from the journal first. Loop's thread.
  void subscribe(const engine::State& state,
                 std::shared_ptr<net::Stream> stream,
                 Envelope who,
                 std::uint64_t last_seen,
                 Tell tell);
  void publish(const server::Durable& durable);
  void pulse();  // Any thread.
  [[nodiscard]] std::size_t size() const { return subscribers_.size(); }

 private:
  struct Subscriber {
    std::shared_ptr<net::Stream> stream;
    Envelope who;
    std::uint64_t last_seen = 0;
    Tell tell;
    bool live = false;  // Has caught up with the journal.
  };
  void catch_up(const engine::State& state, const std::shared_ptr<Subscriber>& subscriber);
  static bool send(const engine::State& state,
                   Subscriber& subscriber,
                   std::uint64_t sequence,
                   const Envelope& envelope,
                   const engine::Events& events);

  server::Loop& loop_;
  std::vector<std::shared_ptr<Subscriber>> subscribers_;
};

// Every event that the actor may know of, as it stands in the journal.
bool tell_events(const engine::State&,
                 const engine::Actor&,
                 net::Stream&,
                 std::uint64_t sequence,
                 const Envelope&,
                 const engine::Events&);
// Answers a request with such a stream: from now on, or after the number that the caller saw last.
void follow(Api&, Call, EventFeed::Tell);

}  // namespace tranche::api
