// SPDX-License-Identifier: Apache-2.0
#pragma once
// One thread beside the network and the engine, for what takes long: passwords, verifying the journal.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/unique_function.hpp"

namespace tranche::api {

class Worker {
 public:
  Worker();
  ~Worker();  // Finishes what it is at; drops what waits.
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False when too much waits already: the caller answers 503.
  [[nodiscard]] bool post(UniqueFunction<void()> task);

 private:
  static constexpr std::size_t kWaitingMax = 64;
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<UniqueFunction<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tranche::api
