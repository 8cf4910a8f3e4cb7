// SPDX-License-Identifier: Apache-2.0
#pragma once
// How often one may guess: ten wrong tokens or passwords a minute for each address and each account.
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tranche::api {

class AuthLimiter {
 public:
  using Clock = std::chrono::steady_clock;
  // True while `who` has guesses left; a wrong guess is told with failed().
  [[nodiscard]] bool may_try(const std::string& who, Clock::time_point now = Clock::now());
  void failed(const std::string& who, Clock::time_point now = Clock::now());

 private:
  static constexpr int kGuesses = 10;
  static constexpr std::chrono::seconds kWindow{60};
  static constexpr std::size_t kRemembered = 100'000;  // Bounded, whoever asks from wherever.
  struct Count {
    int failures = 0;
    Clock::time_point since{};
  };
  std::mutex mutex_;
  std::map<std::string, Count> counts_;
};

}  // namespace tranche::api
