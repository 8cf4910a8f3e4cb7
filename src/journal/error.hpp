// SPDX-License-Identifier: Apache-2.0
#pragma once
// What can go wrong with the data on disk. These are faults of the world: thrown, caught at the server's
// loop.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <sys/types.h>

namespace tranche::journal {

// No space left. Nothing of the batch was written, and the store works again as soon as space returns.
struct DiskFull : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A write or sync failed. What reached the disk is unknown: the caller must stop and acknowledge nothing
// more.
struct DiskFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What is stored is not what was written. `sequence` names the first bad record; 0 is the file itself.
struct Corrupt : std::runtime_error {
  Corrupt(std::uint64_t bad_sequence, const std::string& what)
      : std::runtime_error(what), sequence(bad_sequence) {}
  std::uint64_t sequence = 0;
};

// Another server owns the data. `owner` is its process, or 0 when it did not say.
struct AlreadyOpen : std::runtime_error {
  AlreadyOpen(pid_t owner_pid, const std::string& what) : std::runtime_error(what), owner(owner_pid) {}
  pid_t owner = 0;
};

// Data that this release may not touch: a newer format, a missing or exposed key.
struct Unusable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tranche::journal
