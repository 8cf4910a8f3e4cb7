// SPDX-License-Identifier: Apache-2.0
#pragma once
// How often was each driver call made, by whom, and with which default stream? Every entry point opens a
// scope; a per-thread-stream twin opens one of its own and then runs its plain sibling uncounted.
#include <atomic>
#include <cstdint>

#include "standin_calls.hpp"

namespace standin {

struct SymbolVersion {
  const char* name;
  int version;
  const char* symbol;
  void* address;
  void* per_thread_address;
};
extern const SymbolVersion kSymbolVersions[];
extern const unsigned kSymbolVersionCount;

// Points into the shared slot once the process is attached, into private memory before.
extern std::atomic<std::uint64_t>* call_counts;
extern thread_local bool default_stream_is_per_thread;
extern thread_local bool inside_call;

class CallScope {
 public:
  explicit CallScope(Call call) : outer_(inside_call) {
    if (!outer_) call_counts[static_cast<unsigned>(call)].fetch_add(1, std::memory_order_relaxed);
    inside_call = true;
  }
  ~CallScope() { inside_call = outer_; }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  bool outer_;
};

class TwinScope : public CallScope {
 public:
  explicit TwinScope(Call call) : CallScope(call) { default_stream_is_per_thread = true; }
  ~TwinScope() { default_stream_is_per_thread = false; }
};

}  // namespace standin
