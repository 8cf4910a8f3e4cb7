// SPDX-License-Identifier: Apache-2.0
#include "net/forward.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <mutex>

#include "net/internal/exchange.hpp"
#include "net/internal/tunnel.hpp"
#include "net/internal/upstream.hpp"
#include "net/internal/upstream_pool.hpp"

namespace tranche::net {

namespace asio = boost::asio;

class Forwarder::Pools {
 public:
  explicit Pools(std::shared_ptr<const TlsContext> sealed) : sealed_(std::move(sealed)) {}
  std::shared_ptr<UpstreamPool> of(Loop& loop) {
    const std::lock_guard lock(mutex_);
    if (closed_) return nullptr;
    auto& pool = pools_[&loop];
    if (!pool) pool = std::make_shared<UpstreamPool>(loop, sealed_);
    return pool;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& [loop, pool] : pools_) pool->close();
    pools_.clear();
  }

 private:
  const std::shared_ptr<const TlsContext> sealed_;
  std::mutex mutex_;
  bool closed_ = false;
  std::map<Loop*, std::shared_ptr<UpstreamPool>> pools_;
};

Forwarder::Forwarder(const std::optional<TlsClientOptions>& sealed)
    : pools_(std::make_shared<Pools>(sealed ? std::make_shared<const TlsContext>(*sealed) : nullptr)) {}
Forwarder::~Forwarder() = default;

void Forwarder::send(std::shared_ptr<Errand> errand,
                     ForwardTarget target,
                     ForwardOptions options,
                     Reply reply) {
  const std::shared_ptr<Loop> loop = reply.exchange_->loop;
  auto pool = pools_->of(*loop);
  if (!pool) return;  // The server ends; nobody waits for this answer any more.
  asio::dispatch(loop->io(),
                 [pool = std::move(pool),
                  errand = std::move(errand),
                  target = std::move(target),
                  options,
                  reply = std::move(reply)]() mutable {
                   const bool look = !is_retry_safe(errand->request());
                   pool->take(target, look)->carry(std::move(errand), options, std::move(reply));
                 });
}

Exchange& Forwarder::exchange_of(Reply& reply) {
  return *reply.exchange_;
}

void Forwarder::switch_protocol(Reply& reply, std::string protocol, std::shared_ptr<Tunnel> tunnel) {
  Exchange& exchange = *reply.exchange_;
  exchange.answer = Exchange::Answer::kTunnel;
  exchange.response = {.status = 101, .content_type = {}, .body = {}, .headers = {}};
  exchange.switch_to = std::move(protocol);
  exchange.tunnel = std::move(tunnel);
  Exchange::finish(std::move(reply.exchange_));
}

const std::shared_ptr<Loop>& Forwarder::thread_of(const Reply& reply) {
  return reply.exchange_->loop;
}

void Forwarder::later(Loop& thread, std::function<void()> what) {
  asio::post(thread.io(), std::move(what));
}

void Forwarder::close() {
  pools_->close();
}

bool is_retry_safe(const Request& request) {
  if (request.rest) return false;  // What was passed on is not here any more.
  return request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS" ||
         request.method == "PUT" || request.method == "DELETE" || request.headers.contains("Idempotency-Key");
}

}  // namespace tranche::net
