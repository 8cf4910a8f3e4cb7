// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work of an agent that takes long: wiping, fetching, copying. It is done beside the agent's own thread, so
// that heartbeats go on; what follows from it is done on that thread again.
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tranche::agent {

class Chores {
 public:
  using After = std::function<void()>;          // On the agent's thread.
  using Chore = std::function<After()>;         // On a thread of its lane; must not throw.
  explicit Chores(std::function<void()> bell);  // Rung, from any thread, when there is something to finish.
  // Waits for what is being done; what has not begun never will be. Whoever comes next does it again.
  ~Chores();
  Chores(const Chores&) = delete;
  Chores& operator=(const Chores&) = delete;

  // Chores of one lane follow each other; a device that hangs holds up nobody but itself.
  void add(const std::string& lane, Chore chore);
  void finish();  // Does what follows from all that is done.

 private:
  struct Lane {
    std::deque<Chore> waiting{};
    std::thread thread{};
  };
  void work(Lane& lane);

  std::function<void()> bell_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Lane> lanes_;  // As many as there are devices, and a few.
  std::vector<After> done_;
  bool ending_ = false;
};

}  // namespace tranche::agent
