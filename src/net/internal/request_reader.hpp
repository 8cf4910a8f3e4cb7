// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns bytes of a connection into requests, or into the one refusal that ends the connection.
// No network here, so that the very same path can be fuzzed.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http.hpp"

namespace tranche::net {

struct ReaderLimits {
  std::size_t header_bytes = 16 * 1024;
  std::size_t target_bytes = 8 * 1024;
  std::size_t header_fields = 100;
  std::size_t body_bytes = 1024 * 1024;
  // Bodies larger than this are handed on while they arrive, unless the request may have to be sent again:
  // then those beyond `body_bytes` alone. Zero: never, they are refused.
  std::size_t stream_over = 0;
};

class RequestReader {
 public:
  // kHead: its body comes piece by piece, and kRequest says that it is whole.
  enum class Outcome { kNeedMore, kHead, kRequest, kRefused };
  enum class Phase { kIdle, kHeader, kBody };  // kIdle: not one byte of the next request yet.

  explicit RequestReader(ReaderLimits limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Consumes from the front of `bytes` and says how many were used. Call again with the rest, and with
  // what came since. After kRequest, take() it before the next call; after kRefused there is no next call.
  Outcome read(std::string_view bytes, std::size_t& used);
  Request take();
  Request take_head();      // After kHead.
  std::string take_body();  // What came since, of a body whose head was taken.
  [[nodiscard]] std::optional<std::uint64_t> body_length() const;  // As the head says it.

  [[nodiscard]] Phase phase() const { return phase_; }
  // About the request just completed, or the one whose header is complete:
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  [[nodiscard]] bool http10() const { return http10_; }
  [[nodiscard]] bool expects_continue() const { return expects_continue_; }
  // Why it refused:
  [[nodiscard]] int refusal_status() const { return refusal_status_; }
  [[nodiscard]] const std::string& refusal_reason() const { return refusal_reason_; }

 private:
  class Parser;
  Outcome refuse(int status, std::string reason);
  Outcome parse(std::string_view bytes, std::size_t& used);
  [[nodiscard]] bool comes_in_pieces() const;

  ReaderLimits limits_;
  std::unique_ptr<Parser> parser_;
  Phase phase_ = Phase::kIdle;
  bool keep_alive_ = true;
  bool http10_ = false;
  bool expects_continue_ = false;
  bool head_taken_ = false;
  int refusal_status_ = 0;
  std::string refusal_reason_;
};

}  // namespace tranche::net
