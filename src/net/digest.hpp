// SPDX-License-Identifier: Apache-2.0
#pragma once
// SHA-256 of what comes in pieces: the name of content that travels.
#include <memory>
#include <string>
#include <string_view>

namespace tranche::net {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::string_view bytes);
  [[nodiscard]] std::string hex();  // Once, at the end.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tranche::net
