// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the token counts that OpenAI-style answers end with ("usage"), whether they come whole or as a
// stream of events. Keeps only the tail of what passes.
#include <cstdint>
#include <string>
#include <string_view>

#include "net/http.hpp"

namespace tranche::gateway {

// What comes packed cannot be read on its way, and its tokens would cost nothing: the answer to a request
// that may have some is asked for as it is.
void ask_unpacked(net::Request& request);

class UsageReader {
 public:
  void watch(std::string_view content_type);  // Others than JSON and event streams are not looked at.
  void read(std::string_view piece);
  void finish();
  [[nodiscard]] std::uint64_t tokens_in() const { return tokens_in_; }
  [[nodiscard]] std::uint64_t tokens_out() const { return tokens_out_; }

 private:
  bool watches_ = false;
  std::string tail_;
  std::uint64_t tokens_in_ = 0, tokens_out_ = 0;
};

}  // namespace tranche::gateway
