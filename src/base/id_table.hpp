// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values by a 64-bit id in flat memory: a slab and an open-addressed index over it.
//
// A find costs one probe, an insert no allocation once the slab has grown, and a value stays where it is
// until it is erased. There is no iteration in memory order: whoever wants all of them gets them sorted by
// id, so that nothing can be observed of how the table came about. Zero is no id.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tranche {

template <class T>
class IdTable {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  [[nodiscard]] const T* find(std::uint64_t id) const {
    if (size_ == 0) return nullptr;
    for (std::size_t at = home(id);; at = next(at)) {
      if (index_[at].id == 0) return nullptr;  // First: zero is not there, either.
      if (index_[at].id == id) return &at_slot(index_[at].slot);
    }
  }
  [[nodiscard]] T* find(std::uint64_t id) { return const_cast<T*>(std::as_const(*this).find(id)); }

  // The value of an id that is not there yet; an id that is there keeps its value.
  template <class Value = T>
  T& insert(std::uint64_t id, Value&& value) {
    if (T* present = find(id)) return *present;
    if ((size_ + 1) * 2 > index_.size()) grow();
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = used_++;
      if (slot % kPage == 0) pages_.emplace_back(kPage);
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    place({id, slot});
    ++size_;
    return at_slot(slot) = std::forward<Value>(value);
  }

  T& operator[](std::uint64_t id) {
    T* present = find(id);
    return present != nullptr ? *present : insert(id, T{});
  }

  bool erase(std::uint64_t id) {
    if (size_ == 0 || id == 0) return false;
    std::size_t at = home(id);
    for (; index_[at].id != id; at = next(at)) {
      if (index_[at].id == 0) return false;
    }
    at_slot(index_[at].slot) = T{};
    free_.push_back(index_[at].slot);
    close_gap(at);
    --size_;
    return true;
  }

  [[nodiscard]] std::vector<std::uint64_t> ids() const {  // Sorted.
    std::vector<std::uint64_t> out;
    out.reserve(size_);
    for (const Entry& entry : index_) {
      if (entry.id != 0) out.push_back(entry.id);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::uint32_t slot = 0;
  };

  [[nodiscard]] const T& at_slot(std::uint32_t slot) const { return pages_[slot / kPage][slot % kPage]; }
  [[nodiscard]] T& at_slot(std::uint32_t slot) { return pages_[slot / kPage][slot % kPage]; }

  // Ids that were given out one after the other lie side by side: what is young is in the cache.
  [[nodiscard]] std::size_t home(std::uint64_t id) const {
    const std::uint64_t block = ((id / kBlock) * 0x9E3779B97F4A7C15ULL) >> shift_;
    return static_cast<std::size_t>(block * kBlock + id % kBlock);
  }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (index_.size() - 1); }

  void place(Entry entry) {
    std::size_t at = home(entry.id);
    while (index_[at].id != 0) at = next(at);
    index_[at] = entry;
  }
  // Entries behind the gap move up, so that a probe never has to step over what was erased.
  void close_gap(std::size_t gap) {
    const std::size_t mask = index_.size() - 1;
    for (std::size_t at = next(gap); index_[at].id != 0; at = next(at)) {
      if (((at - home(index_[at].id)) & mask) < ((at - gap) & mask)) continue;
      index_[gap] = index_[at];
      gap = at;
    }
    index_[gap] = {};
  }
  void grow() {
    std::vector<Entry> old = std::move(index_);
    const std::size_t wanted = std::max<std::size_t>(16, old.size() * 2);
    index_.assign(wanted, {});
    shift_ = 64;
    for (std::size_t blocks = wanted / kBlock; blocks > 1; blocks /= 2) --shift_;
    for (const Entry& entry : old) {
      if (entry.id != 0) place(entry);
    }
  }

  static constexpr std::uint32_t kPage = 256;
  static constexpr std::uint64_t kBlock = 8;  // Entries on two lines of the cache.

  std::vector<std::vector<T>> pages_;  // All of one size, so that values never move.
  std::uint32_t used_ = 0;             // Slots that were ever handed out.
  std::vector<std::uint32_t> free_;
  std::vector<Entry> index_;
  unsigned shift_ = 64;
  std::size_t size_ = 0;
};

}  // namespace tranche
