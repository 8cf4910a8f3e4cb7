// SPDX-License-Identifier: Apache-2.0
#pragma once
// What does the front remember about a handle? A hash table keyed by pointer behind one lock; entries never
// move.
#include <cstdint>
#include <cstdlib>
#include <new>

#include "guard/opencl/cl_front.hpp"

namespace tranche::guard::opencl {

template <typename Record, unsigned kBuckets = 1024>
class ObjectTable {
 public:
  struct Entry {
    const void* key = nullptr;
    Record record;
    Entry* next = nullptr;
  };

  // Copies, so that nobody holds a pointer into the table while another thread erases.
  bool find(const void* key, Record& out) {
    const Lock lock(mutex_);
    const Entry* entry = look(key);
    if (entry == nullptr) return false;
    out = entry->record;
    return true;
  }

  bool contains(const void* key) {
    const Lock lock(mutex_);
    return look(key) != nullptr;
  }

  void put(const void* key, const Record& record) {
    const Lock lock(mutex_);
    Entry* entry = look(key);
    if (entry == nullptr) {
      void* memory = std::malloc(sizeof(Entry));
      if (memory == nullptr) std::abort();
      entry = new (memory) Entry;
      entry->key = key;
      entry->next = buckets_[place(key)];
      buckets_[place(key)] = entry;
    }
    entry->record = record;
  }

  // Runs `change` on the record under the lock; false when there is none.
  template <typename Change>
  bool change(const void* key, Change&& change) {
    const Lock lock(mutex_);
    Entry* entry = look(key);
    if (entry == nullptr) return false;
    change(entry->record);
    return true;
  }

  void erase(const void* key) {
    const Lock lock(mutex_);
    for (Entry** at = &buckets_[place(key)]; *at != nullptr; at = &(*at)->next) {
      if ((*at)->key != key) continue;
      Entry* gone = *at;
      *at = gone->next;
      gone->~Entry();
      std::free(gone);
      return;
    }
  }

  template <typename Visit>
  void for_each(Visit&& visit) {
    const Lock lock(mutex_);
    for (Entry* entry : buckets_)
      for (; entry != nullptr; entry = entry->next) visit(entry->key, entry->record);
  }

 private:
  static unsigned place(const void* key) {
    return static_cast<unsigned>((reinterpret_cast<std::uintptr_t>(key) * 0x9e3779b97f4a7c15ULL) >> 40) %
           kBuckets;
  }
  Entry* look(const void* key) {
    Entry* entry = buckets_[place(key)];
    while (entry != nullptr && entry->key != key) entry = entry->next;
    return entry;
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Entry* buckets_[kBuckets] = {};
};

}  // namespace tranche::guard::opencl
