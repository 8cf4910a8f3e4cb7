// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gives a ByteStream the asynchronous face that Beast's WebSocket wants below it. Heavy: for one .cpp only.
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/role.hpp>
#include <cstring>
#include <memory>
#include <string>

#include "net/internal/byte_stream.hpp"

namespace tranche::net {

class AsyncByteStream {
  using ErrorCode = boost::system::error_code;

 public:
  using executor_type = boost::asio::ip::tcp::socket::executor_type;

  AsyncByteStream(boost::asio::ip::tcp::socket socket, std::unique_ptr<ByteStream> stream, std::string early)
      : socket_(std::move(socket)), stream_(std::move(stream)), early_(std::move(early)) {}

  executor_type get_executor() { return socket_.get_executor(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    boost::asio::mutable_buffer into;
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         at != boost::asio::buffer_sequence_end(buffers);
         ++at) {
      into = *at;
      if (into.size() > 0) break;
    }
    return boost::asio::async_compose<Token, void(ErrorCode, std::size_t)>(Read{*this, into}, token, socket_);
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    Write write{*this};
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         at != boost::asio::buffer_sequence_end(buffers) && write.count < write.pieces.size();
         ++at) {
      const boost::asio::const_buffer piece = *at;
      write.pieces[write.count++] = {const_cast<void*>(piece.data()), piece.size()};  // NOLINT: only read.
    }
    return boost::asio::async_compose<Token, void(ErrorCode, std::size_t)>(std::move(write), token, socket_);
  }

  void shutdown() { stream_->shutdown_write(); }
  void close() {
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  Transfer read_now(boost::asio::mutable_buffer into) {
    if (early_.empty()) return stream_->read({static_cast<char*>(into.data()), into.size()});
    const std::size_t bytes = std::min(early_.size(), into.size());
    std::memcpy(into.data(), early_.data(), bytes);
    early_.erase(0, bytes);
    return {Transfer::Status::kDone, bytes};
  }

  // Tries; waits for the socket when it must; completes through the executor, never from within the call
  // that began it.
  template <class Self, class Attempt>
  void step(Self& self, bool& inside_begin, Transfer& result, ErrorCode error, Attempt attempt) {
    if (result.bytes > 0) return self.complete({}, result.bytes);
    if (!error) {
      result = attempt();
      switch (result.status) {
        case Transfer::Status::kWaitReadable:
          inside_begin = false;
          return socket_.async_wait(boost::asio::ip::tcp::socket::wait_read, std::move(self));
        case Transfer::Status::kWaitWritable:
          inside_begin = false;
          return socket_.async_wait(boost::asio::ip::tcp::socket::wait_write, std::move(self));
        case Transfer::Status::kDone:
          break;
        case Transfer::Status::kClosed:
          error = boost::asio::error::eof;
          break;
        case Transfer::Status::kFailed:
          error = boost::asio::error::connection_reset;
          break;
      }
    }
    if (!inside_begin) return self.complete(error, result.bytes);
    inside_begin = false;
    const auto executor = socket_.get_executor();
    boost::asio::post(executor, [self = std::move(self), error, bytes = result.bytes]() mutable {
      self.complete(error, bytes);
    });
  }

  struct Read {
    AsyncByteStream& stream;
    boost::asio::mutable_buffer into;
    bool inside_begin = true;
    Transfer result{};

    template <class Self>
    void operator()(Self& self, ErrorCode error = {}) {
      stream.step(self, inside_begin, result, error, [this] { return stream.read_now(into); });
    }
  };

  struct Write {
    AsyncByteStream& stream;
    std::array<iovec, 4> pieces{};
    std::size_t count = 0;
    bool inside_begin = true;
    Transfer result{};

    template <class Self>
    void operator()(Self& self, ErrorCode error = {}) {
      stream.step(self, inside_begin, result, error, [this] {
        return stream.stream_->write({pieces.data(), count});
      });
    }
  };

  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<ByteStream> stream_;
  std::string early_;
};

// How Beast cuts the layer below after a timeout, and how it ends it politely, found by argument-dependent
// lookup.
inline void beast_close_socket(AsyncByteStream& stream) {
  stream.close();
}

inline void teardown(boost::beast::role_type, AsyncByteStream& stream, boost::system::error_code& error) {
  stream.shutdown();
  error = {};
}

template <class Handler>
void async_teardown(boost::beast::role_type, AsyncByteStream& stream, Handler&& handler) {
  stream.shutdown();
  boost::asio::post(stream.get_executor(), [handler = std::forward<Handler>(handler)]() mutable {
    handler(boost::system::error_code{});
  });
}

}  // namespace tranche::net
