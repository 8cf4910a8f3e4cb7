// SPDX-License-Identifier: Apache-2.0
#pragma once
// TextMap: names and texts in order of names (environment, labels) in one block of memory. JSON shows an
// object.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tranche::wire {

class TextMap {
 public:
  using Entry = std::pair<std::string, std::string>;
  TextMap() = default;
  TextMap(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) set(entry.first, entry.second);
  }

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] const std::string* find(std::string_view name) const {
    const auto at = lower_bound(name);
    return at != entries_.end() && at->first == name ? &at->second : nullptr;
  }
  // False, and nothing changes, when the name is there already.
  bool add(std::string name, std::string text) {
    const auto at = lower_bound(name);
    if (at != entries_.end() && at->first == name) return false;
    entries_.emplace(at, std::move(name), std::move(text));
    return true;
  }
  void set(std::string name, std::string text) {
    const auto at = entries_.begin() + (lower_bound(name) - entries_.cbegin());
    if (at != entries_.end() && at->first == name) {
      at->second = std::move(text);
    } else {
      entries_.emplace(at, std::move(name), std::move(text));
    }
  }
  bool operator==(const TextMap&) const = default;

 private:
  [[nodiscard]] std::vector<Entry>::const_iterator lower_bound(std::string_view name) const {
    return std::lower_bound(
        entries_.begin(), entries_.end(), name, [](const Entry& entry, std::string_view wanted) {
          return entry.first < wanted;
        });
  }

  std::vector<Entry> entries_;
};

}  // namespace tranche::wire
