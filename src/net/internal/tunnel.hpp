// SPDX-License-Identifier: Apache-2.0
#pragma once
// A client and another server that agreed on another protocol (a WebSocket, say): bytes both ways until both
// have finished, one of them breaks, or nothing was said for too long. The loop's thread only.
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "net/internal/byte_stream.hpp"
#include "net/internal/loop.hpp"

namespace tranche::net {

class Tunnel final : public Session, public std::enable_shared_from_this<Tunnel> {
 public:
  // `there` is the other server's connection, `early` what it has said already. `on_end` is called once.
  Tunnel(std::shared_ptr<Loop> loop,
         boost::asio::ip::tcp::socket there,
         std::unique_ptr<ByteStream> stream,
         std::string early,
         std::chrono::milliseconds idle,
         std::function<void()> on_end);
  ~Tunnel() override;

  // The client's connection: owned from here on. `first` goes to it before anything else, `early` came from
  // it.
  void start(int descriptor, std::unique_ptr<ByteStream> stream, std::string first, std::string early);
  void abort() override;

 private:
  struct End {
    explicit End(boost::asio::ip::tcp::socket own) : socket(std::move(own)) {}
    boost::asio::ip::tcp::socket socket;
    std::unique_ptr<ByteStream> stream{};
    std::string out{};      // Said by the other end, not taken by this one yet.
    bool finished = false;  // Says no more.
    bool told = false;      // Knows that the other end says no more.
    bool awaits_bytes = false, awaits_room = false;
  };

  void expire(Clock::time_point now) override;
  void drain() override { abort(); }
  void pump();
  bool listen_to(End& from, End& to);  // False: it broke.
  bool tell(End& to, const End& from);
  void await_bytes(End& from, const End& to);
  void await_room(End& to);

  const std::shared_ptr<Loop> loop_;
  const std::chrono::milliseconds idle_;
  std::function<void()> on_end_;
  End client_, server_;
  Clock::time_point last_heard_{};
  bool ended_ = false;
};

}  // namespace tranche::net
