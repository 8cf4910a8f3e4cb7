// SPDX-License-Identifier: Apache-2.0
#pragma once
// One connection to another server. It carries one request at a time, there and back, and is kept with its
// memory for the next. The loop's thread only.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "net/forward.hpp"
#include "net/internal/byte_stream.hpp"
#include "net/internal/exchange.hpp"
#include "net/internal/loop.hpp"
#include "net/internal/relay_reader.hpp"

namespace tranche::net {

class UpstreamPool;

class Upstream final : public std::enable_shared_from_this<Upstream> {
 public:
  Upstream(const std::shared_ptr<UpstreamPool>& pool, ForwardTarget target);

  void carry(std::shared_ptr<Errand> errand, const ForwardOptions& options, Reply reply);
  void expire(Clock::time_point now);
  void close();
  [[nodiscard]] bool is_quiet();  // Nothing to read, and not closed: fit for another request.
  [[nodiscard]] const ForwardTarget& target() const { return target_; }

  // The pool's:
  Clock::time_point idle_since{};
  std::size_t slot = 0;

 private:
  void connect();
  void shake_hands();
  void send_request();
  bool send_text();     // False: it waits, or has ended.
  bool next_of_body();  // False: there is nothing to send now.
  void await_answer();
  void on_readable(const boost::system::error_code& error);
  void receive();
  void take(std::string_view bytes);
  void pass_on(bool whole);
  void send_whole();
  void send_piece(bool whole);
  void write_held();
  void change_protocol();
  void end(ForwardEnd how);

  const std::weak_ptr<UpstreamPool> home_;
  const ForwardTarget target_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<ByteStream> bytes_;
  RelayReader reader_;
  std::string text_;  // The request, or the next piece of its body.
  std::size_t sent_ = 0;
  std::string rest_;  // Read, and not parsed yet: a header that is not whole.
  bool awaiting_ = false, awaits_room_ = false;

  // While it carries something:
  std::shared_ptr<UpstreamPool> pool_;
  std::shared_ptr<Errand> errand_;
  std::optional<Reply> reply_;
  ForwardOptions options_;
  std::shared_ptr<Stream> stream_;
  std::string held_;  // For a client that reads slowly.
  std::optional<boost::asio::steady_timer> pause_;
  Clock::time_point deadline_ = Clock::time_point::max();
  int status_ = 0;
  bool timed_out_ = false, heard_ = false, head_done_ = false, whole_ = false, answered_ = false;
  bool reusable_ = true;
  bool body_ended_ = true;  // All of the request was sent.
};

}  // namespace tranche::net
