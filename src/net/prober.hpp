// SPDX-License-Identifier: Apache-2.0
#pragma once
// Asks servers for a path and hears how they answer, many at once on one thread of its own: one that hangs
// holds up nobody else.
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "net/forward.hpp"

namespace tranche::net {

class Prober {
 public:
  // What it shows to targets with an identity, and who vouches for them.
  explicit Prober(const std::optional<TlsClientOptions>& sealed = std::nullopt);
  ~Prober();  // Who has not been told by now is not told any more.
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // From any thread. `told` is called once, on the prober's thread: the status of the answer; zero: none in
  // time.
  void ask(const ForwardTarget& target,
           const std::string& path,
           std::chrono::milliseconds patience,
           std::function<void(int status)> told);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tranche::net
