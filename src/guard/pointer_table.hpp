// SPDX-License-Identifier: Apache-2.0
#pragma once
// What do we know about the objects this process got from its driver? Address or handle -> size and device.
//
// Open addressing in shards, each behind a tiny lock of this process alone. Cost does not depend on how many
// live.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>

namespace tranche::guard {

struct TableEntry {
  std::uint64_t key = 0;  // Zero: empty. One: removed.
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t kind = 0;
  std::uint32_t references = 0;
  std::uint32_t mappings = 0;
  std::uint32_t clean = 0;  // Physical memory: zeroed since it was made, or known to somebody already.
};

class PointerTable {
 public:
  bool insert(const TableEntry& entry) {
    Shard& shard = shard_of(entry.key);
    const Hold hold(shard);
    // Half empty: the cost of a look-up is a line of memory or two, however many live.
    if ((shard.filled + 1) * 2 > shard.capacity && !grow(shard)) return false;
    TableEntry* place = place_for(shard, entry.key);
    if (place->key == 0) ++shard.filled;
    *place = entry;
    return true;
  }

  // Takes the entry out; false when it is not there.
  bool remove(std::uint64_t key, TableEntry& out) {
    Shard& shard = shard_of(key);
    const Hold hold(shard);
    TableEntry* place = find(shard, key);
    if (place == nullptr) return false;
    out = *place;
    place->key = 1;
    return true;
  }

  // Calls change(entry) under the shard's lock; false when there is none.
  template <class Change>
  bool update(std::uint64_t key, Change change) {
    Shard& shard = shard_of(key);
    const Hold hold(shard);
    TableEntry* place = find(shard, key);
    if (place == nullptr) return false;
    change(*place);
    return true;
  }

  // Removes every entry for which test(entry) holds, then gives it to taken(entry).
  template <class Test, class Taken>
  void remove_if(Test test, Taken taken) {
    for (Shard& shard : shards_) {
      for (std::uint64_t i = 0; i < shard.capacity; ++i) {
        TableEntry entry;
        {
          const Hold hold(shard);
          if (i >= shard.capacity) break;
          entry = shard.entries[i];
        }
        if (entry.key < 2 || !test(entry)) continue;
        TableEntry out;
        if (remove(entry.key, out)) taken(out);
      }
    }
  }

  // In a forked child: nobody else runs, whatever was held is free again.
  void unlock_all() {
    for (Shard& shard : shards_) shard.lock.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kShards = 16;
  struct alignas(64) Shard {
    std::atomic<std::uint32_t> lock;
    TableEntry* entries = nullptr;
    std::uint64_t capacity = 0;
    std::uint64_t filled = 0;
  };
  class Hold {
   public:
    explicit Hold(Shard& shard) : shard_(shard) {
      for (int spins = 0; shard_.lock.exchange(1, std::memory_order_acquire) != 0; ++spins)
        if (spins > 100) ::sched_yield();
    }
    ~Hold() { shard_.lock.store(0, std::memory_order_release); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Shard& shard_;
  };

  static std::uint64_t hash(std::uint64_t key) { return (key >> 4 ^ key << 40) * 0x9e3779b97f4a7c15ULL; }
  Shard& shard_of(std::uint64_t key) { return shards_[hash(key) >> 60]; }
  static TableEntry* find(Shard& shard, std::uint64_t key) {
    if (shard.capacity == 0) return nullptr;
    for (std::uint64_t i = hash(key) >> 8;; ++i) {
      TableEntry& entry = shard.entries[i & (shard.capacity - 1)];
      if (entry.key == key) return &entry;
      if (entry.key == 0) return nullptr;
    }
  }
  // Where `key` is, or the first place it may take.
  static TableEntry* place_for(Shard& shard, std::uint64_t key) {
    TableEntry* removed = nullptr;
    for (std::uint64_t i = hash(key) >> 8;; ++i) {
      TableEntry& entry = shard.entries[i & (shard.capacity - 1)];
      if (entry.key == key) return &entry;
      if (entry.key == 0) return removed == nullptr ? &entry : removed;
      if (entry.key == 1 && removed == nullptr) removed = &entry;
    }
  }
  // From the kernel, not from malloc: the program's allocator may be the one calling us.
  static bool grow(Shard& shard) {
    std::uint64_t live = 0;
    for (std::uint64_t i = 0; i < shard.capacity; ++i) live += shard.entries[i].key >= 2 ? 1 : 0;
    std::uint64_t capacity = 128;
    while (capacity < (live + 1) * 3) capacity *= 2;
    void* memory = ::mmap(
        nullptr, capacity * sizeof(TableEntry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    Shard fresh;
    fresh.entries = static_cast<TableEntry*>(memory);
    fresh.capacity = capacity;
    for (std::uint64_t i = 0; i < shard.capacity; ++i) {
      if (shard.entries[i].key < 2) continue;
      *place_for(fresh, shard.entries[i].key) = shard.entries[i];
      ++fresh.filled;
    }
    if (shard.entries != nullptr) ::munmap(shard.entries, shard.capacity * sizeof(TableEntry));
    shard.entries = fresh.entries;
    shard.capacity = capacity;
    shard.filled = fresh.filled;
    return true;
  }

  Shard shards_[kShards];
};

}  // namespace tranche::guard
