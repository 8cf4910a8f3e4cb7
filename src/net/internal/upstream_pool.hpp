// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections to other servers that wait for their next request, one pool for each loop, and the deadlines
// of those at work.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "net/forward.hpp"
#include "net/internal/loop.hpp"

namespace tranche::net {

class UpstreamPool {
 public:
  explicit UpstreamPool(Loop& loop) : loop_(loop), timer_(loop.io()) {}

  // A kept connection whose other end has not closed it meanwhile.
  std::optional<boost::asio::ip::tcp::socket> take(const ForwardTarget& target);
  void give(const ForwardTarget& target, boost::asio::ip::tcp::socket socket);

  class Timed {
   public:
    virtual ~Timed() = default;
    virtual void expire(Clock::time_point now) = 0;
  };
  void watch(Timed& timed);
  void unwatch(Timed& timed) { timed_.erase(&timed); }
  [[nodiscard]] Loop& loop() { return loop_; }

 private:
  struct Idle {
    boost::asio::ip::tcp::socket socket;
    Clock::time_point since;
  };
  void tick();

  Loop& loop_;
  boost::asio::steady_timer timer_;
  std::map<ForwardTarget, std::vector<Idle>> idle_;
  std::set<Timed*> timed_;
  bool ticking_ = false;
};

}  // namespace tranche::net
