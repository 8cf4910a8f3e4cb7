// SPDX-License-Identifier: Apache-2.0
#include "agent/chores.hpp"

#include <utility>

namespace tranche::agent {

Chores::Chores(std::function<void()> bell) : bell_(std::move(bell)) {}

Chores::~Chores() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (auto& [name, lane] : lanes_) lane.thread.join();
}

void Chores::add(const std::string& lane, Chore chore) {
  const std::lock_guard lock(mutex_);
  Lane& where = lanes_[lane];
  where.waiting.push_back(std::move(chore));
  if (!where.thread.joinable()) where.thread = std::thread([this, &where] { work(where); });
  wake_.notify_all();
}

void Chores::work(Lane& lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return ending_ || !lane.waiting.empty(); });
    if (ending_) return;
    const Chore chore = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lock.unlock();
    After after = chore();
    lock.lock();
    done_.push_back(std::move(after));
    bell_();
  }
}

void Chores::finish() {
  std::vector<After> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (const After& after : done)
    if (after) after();
}

}  // namespace tranche::agent
