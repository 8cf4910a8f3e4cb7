// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which log a lease writes to, and which node may write there. A bounded memory of the engine's state: what
// it has forgotten is asked for again, and chunks that come meanwhile wait in order.
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "server/log_store.hpp"

namespace tranche::server {

struct LogPlace {
  LogName name{};  // Its stream is the chunk's.
  NodeId node{};
  std::uint64_t epoch = 0;
};

class LogNames {
 public:
  using Write = std::function<void(const std::optional<LogPlace>&)>;  // Nothing: there is no such lease.
  using Ask = std::function<void(LeaseId)>;                           // Answered by put(), on any thread.
  LogNames(std::size_t most, Ask ask) : most_(most), ask_(std::move(ask)) {}

  // Calls `write` with the place, now or once it is known; writes of one lease keep their order.
  void with(LeaseId lease, const Write& write);
  void put(LeaseId lease, std::optional<LogPlace> place);
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    bool known = false;
    std::optional<LogPlace> place{};
    std::vector<Write> waiting{};
    std::list<LeaseId>::iterator used{};
  };
  Entry& touch(LeaseId lease);
  void forget_oldest();

  std::size_t most_;
  Ask ask_;
  mutable std::mutex mutex_;
  std::map<LeaseId, Entry> entries_;
  std::list<LeaseId> order_;  // The longest unused first.
};

}  // namespace tranche::server
