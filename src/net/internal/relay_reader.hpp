// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the bytes another server sent into an answer to pass on: its fields stay text, those of one hop are
// left out. One reader reads any number of answers, one after the other. No network here.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tranche::net {

// Fields that are between two neighbours, and not for whom the message is passed on to.
[[nodiscard]] bool is_of_one_hop(std::string_view name);

class RelayReader {
 public:
  enum class Outcome { kNeedMore, kAnswer, kBroken };
  enum class Body { kExpected, kNone };  // kNone: the answer to a HEAD.

  RelayReader();
  ~RelayReader();
  RelayReader(const RelayReader&) = delete;
  RelayReader& operator=(const RelayReader&) = delete;

  void begin(Body body);
  Outcome read(std::string_view bytes, std::size_t& used);
  Outcome end_of_stream();  // The server closed: that may be how it ends a body.

  [[nodiscard]] bool header_complete() const;
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] const std::string& content_type() const;
  [[nodiscard]] const std::string& length() const;    // Content-Length as it was written; empty: none.
  [[nodiscard]] const std::string& protocol() const;  // What a 101 changes to.
  std::string& fields();                              // "Name: value\r\n", one after the other.
  std::string& body();                                // Grows while it arrives, and may be taken from it.

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
  Body body_ = Body::kExpected;
};

}  // namespace tranche::net
