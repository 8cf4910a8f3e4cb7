// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections to other servers that wait for their next request, one pool for each loop, and the deadlines
// of those at work. The loop's thread only.
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <vector>

#include "net/forward.hpp"
#include "net/internal/byte_stream.hpp"
#include "net/internal/loop.hpp"

namespace tranche::net {

class Upstream;

class UpstreamPool : public std::enable_shared_from_this<UpstreamPool> {
 public:
  UpstreamPool(Loop& loop, std::shared_ptr<const TlsContext> sealed)
      : loop_(loop), sealed_(std::move(sealed)), timer_(loop.io()) {}

  // A kept one, or one that will connect. Kept ones hear when their other end closes; `look` looks once more,
  // for a request that must not be sent in vain.
  std::shared_ptr<Upstream> take(const ForwardTarget& target, bool look);
  bool give(const std::shared_ptr<Upstream>& upstream);  // False: there are enough.
  void forget(const Upstream& upstream);                 // One that was kept; its other end closed it.

  void watch(Upstream& upstream);
  void unwatch(Upstream& upstream);
  void close();
  [[nodiscard]] Loop& loop() { return loop_; }
  [[nodiscard]] const TlsContext* sealed() const { return sealed_.get(); }  // Null: nobody vouches for us.

 private:
  void tick();
  void drop_old(Clock::time_point now);

  Loop& loop_;
  const std::shared_ptr<const TlsContext> sealed_;
  boost::asio::steady_timer timer_;
  std::map<ForwardTarget, std::vector<std::shared_ptr<Upstream>>> idle_;
  std::vector<Upstream*> busy_;  // Each knows its place.
  bool ticking_ = false;
};

}  // namespace tranche::net
