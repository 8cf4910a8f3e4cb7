// SPDX-License-Identifier: Apache-2.0
#pragma once
// One HTTP connection on its loop: reads requests, keeps their answers in order, writes them out.
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "net/internal/byte_stream.hpp"
#include "net/internal/exchange.hpp"
#include "net/internal/loop.hpp"
#include "net/internal/output_queue.hpp"
#include "net/internal/request_reader.hpp"
#include "net/request_body.hpp"
#include "net/server.hpp"

namespace tranche::net {

// What all connections of a server share.
struct ServerShared {
  ServerOptions options;
  Handler handler;
  std::atomic<std::uint64_t> requests{0};
};

class Connection final : public Session, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Loop> loop,
             std::shared_ptr<ServerShared> shared,
             boost::asio::ip::tcp::socket socket,
             std::unique_ptr<ByteStream> stream);
  ~Connection() override;

  void start();
  void wants_flush() { loop_->mark(*this); }

 private:
  void expire(Clock::time_point now) override;
  void drain() override;
  void abort() override;
  void flush() override;

  // Reading (connection.cpp)
  void shake_hands();
  void await_bytes();
  void on_bytes();
  void receive();
  void consume(std::string_view bytes);
  std::size_t parse(std::string_view bytes);
  void peer_has_finished();
  void dispatch(Request request);
  void begin_body();
  void hand_on(bool is_whole);
  void end_body(RequestBody::State how);
  void give_up_on_body();
  void go_on_with_body();
  void refuse(int status, std::string_view reason);
  void give_up_on_handler();
  void discard();
  void watch_clock();
  [[nodiscard]] bool full() const;

  // Answering (connection_answers.cpp)
  void emit_answers();
  void emit_response(Exchange& exchange);
  bool emit_stream(Exchange& exchange);  // True when it is complete.
  void emit_upgrade(Exchange& exchange);
  void emit_tunnel(Exchange& exchange);
  void emit_head(const Exchange& exchange, std::string_view framing);
  void emit_continue();
  void write_out();
  void await_writable();
  void after_writing();
  void close();

  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<ServerShared> shared_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<ByteStream> stream_;
  std::string peer_;
  bool tls_ = false;
  std::shared_ptr<const PeerCertificate> certificate_;

  RequestReader reader_;
  std::string input_;                  // Read, but not yet parsed.
  std::shared_ptr<RequestBody> body_;  // Of the last request in flight, while it arrives and is passed on.
  std::vector<std::shared_ptr<Exchange>> in_flight_;  // In the order of their requests.
  std::size_t in_flight_bytes_ = 0;
  OutputQueue output_;

  bool shaking_hands_ = true;
  bool reading_ = true;         // More requests are welcome.
  bool last_ = false;           // None is, once the body that arrives is whole.
  bool peer_finished_ = false;  // It sent its end of stream.
  bool linger_ = false;         // It may still be sending: let it read our answer before the reset.
  bool lingering_ = false;
  bool upgrading_ = false;  // Bytes behind an upgrade are not HTTP.
  bool continue_owed_ = false;
  bool continue_sent_ = false;
  bool writable_awaited_ = false;
  bool room_awaited_ = false;
  bool closed_ = false;
  std::uint64_t served_ = 0;
  std::size_t discarded_ = 0;
  std::size_t written_since_ = 0;
  std::uint64_t clock_served_ = 0;
  RequestReader::Phase clock_phase_ = RequestReader::Phase::kIdle;
  Clock::time_point read_deadline_ = Clock::time_point::max();
  Clock::time_point write_deadline_ = Clock::time_point::max();
};

}  // namespace tranche::net
