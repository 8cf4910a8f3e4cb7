// SPDX-License-Identifier: Apache-2.0
#include "server/log_names.hpp"

#include <utility>

namespace tranche::server {

LogNames::Entry& LogNames::touch(LeaseId lease) {
  const auto [at, fresh] = entries_.try_emplace(lease);
  Entry& entry = at->second;
  if (!fresh) order_.erase(entry.used);
  entry.used = order_.insert(order_.end(), lease);
  return entry;
}

// Never one that is being asked for: its chunks wait in it.
void LogNames::forget_oldest() {
  for (auto at = order_.begin(); at != order_.end() && entries_.size() > most_;) {
    const auto found = entries_.find(*at);
    if (!found->second.known) {
      ++at;
      continue;
    }
    entries_.erase(found);
    at = order_.erase(at);
  }
}

void LogNames::with(LeaseId lease, const Write& write) {
  std::optional<LogPlace> place;
  bool known = false;
  bool asks = false;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = touch(lease);
    known = entry.known;
    place = entry.place;
    asks = !known && entry.waiting.empty();
    if (!known) entry.waiting.push_back(write);
    forget_oldest();
  }
  if (known) return write(place);
  if (asks) ask_(lease);
}

void LogNames::put(LeaseId lease, std::optional<LogPlace> place) {
  for (;;) {
    std::vector<Write> waiting;
    {
      const std::lock_guard lock(mutex_);
      Entry& entry = touch(lease);
      entry.place = place;
      // Known only when nobody waits any more: whoever comes now would overtake those before him.
      entry.known = entry.waiting.empty();
      waiting.swap(entry.waiting);
      forget_oldest();
    }
    if (waiting.empty()) return;
    for (const Write& write : waiting) write(place);
  }
}

std::size_t LogNames::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace tranche::server
