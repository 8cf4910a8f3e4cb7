// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which process is this, so that a recycled pid is never taken for the one that died?
#include <cstdint>

#include "guard/atomic_pair.hpp"

namespace tranche::guard {

// pid + pid-namespace inode in one word, start time (clock ticks since boot) in the other.
struct ProcessIdentity {
  std::uint32_t pid = 0;
  std::uint32_t pid_namespace = 0;
  std::uint64_t start_time = 0;
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

enum class Liveness { kAlive, kDead, kUnknown };  // Unknown: it lives in a namespace we cannot look into.

inline Pair pack(const ProcessIdentity& id) {
  // The start time comes first: AtomicPair::load() proves itself by the low word, and two processes with the
  // same start time and different pids are only ever written to a slot with a zero between them.
  return {id.start_time, (std::uint64_t{id.pid_namespace} << 32) | id.pid};
}
inline ProcessIdentity unpack_identity(const Pair& pair) {
  return {static_cast<std::uint32_t>(pair.high), static_cast<std::uint32_t>(pair.high >> 32), pair.low};
}

// The calling process; all zero when /proc cannot be read.
ProcessIdentity own_identity();
// The process `pid` as seen from here; all zero when there is none.
ProcessIdentity identity_of(std::uint32_t pid);
// The same, as the process itself would say it: with its pid in its own PID namespace.
ProcessIdentity innermost_identity(std::uint32_t pid);
Liveness liveness(const ProcessIdentity& id, const ProcessIdentity& self);

}  // namespace tranche::guard
