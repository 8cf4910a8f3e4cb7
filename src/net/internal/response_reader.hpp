// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the bytes a server sent into a response. No network here.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http.hpp"

namespace tranche::net {

class ResponseReader {
 public:
  enum class Outcome { kNeedMore, kResponse, kBroken };
  enum class Body { kExpected, kNone };  // kNone: the answer to a HEAD.

  ResponseReader(Body body, std::size_t body_bytes_max);
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  Outcome read(std::string_view bytes, std::size_t& used);
  Outcome end_of_stream();  // The server closed: that may be how it ends a body.

  [[nodiscard]] bool header_complete() const;
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] const std::string& error() const { return error_; }
  Response& response();  // Its body grows while it arrives, and may be taken from it piece by piece.

 private:
  class Parser;
  void skip_interim();

  Body body_;
  std::size_t body_bytes_max_;
  std::unique_ptr<Parser> parser_;
  std::string error_;
};

}  // namespace tranche::net
