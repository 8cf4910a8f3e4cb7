// SPDX-License-Identifier: Apache-2.0
#pragma once
// The durable order of records. Bodies are opaque here; the engine encodes them. Sequences are dense from 1.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "journal/chain.hpp"
#include "journal/error.hpp"

namespace tranche::journal {

// Reading, for any thread. A server's Store is one; open_sqlite_reader gives one to another process.
class Reader {
 public:
  // Return false to stop. The body is valid during the call only; do not append from inside.
  using Visit = std::function<bool(std::uint64_t sequence, std::string_view body)>;
  using VisitWithHash = std::function<bool(std::uint64_t sequence, std::string_view body, const Hash& hash)>;

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  virtual ~Reader() = default;

  // What is durable; never what is being written.
  [[nodiscard]] virtual std::uint64_t last_sequence() const = 0;
  [[nodiscard]] virtual Hash head() const = 0;
  // The chain after record `sequence`; kGenesis for 0. Throws Corrupt when there is no such record.
  [[nodiscard]] virtual Hash hash_at(std::uint64_t sequence) const = 0;

  // Records from..to, both included, oldest first. Each is checked against the chain before it is shown;
  // throws Corrupt naming the first that fails or is missing. `to` beyond the end means the end.
  virtual void scan_with_hash(std::uint64_t from, std::uint64_t to, const VisitWithHash& visit) const = 0;
  void scan(std::uint64_t from, std::uint64_t to, const Visit& visit) const {
    scan_with_hash(from, to, [&](std::uint64_t sequence, std::string_view body, const Hash&) {
      return visit(sequence, body);
    });
  }
  // The same, newest first, from `from` down to `to`.
  virtual void scan_back(std::uint64_t from, std::uint64_t to, const Visit& visit) const = 0;

  // Signed checkpoints with from <= sequence <= to, in order.
  [[nodiscard]] virtual std::vector<Checkpoint> checkpoints(std::uint64_t from, std::uint64_t to) const = 0;
  [[nodiscard]] virtual PublicKey public_key() const = 0;
};

class Store : public Reader {
 public:
  // One durable transaction: all of the bodies, as last_sequence()+1 and on, or none. Returns the new last
  // sequence. One thread at a time. Throws DiskFull (none written, try again later) or DiskFailed (stop;
  // every further append throws too). `now` dates signed checkpoints; it is no part of the records.
  virtual std::uint64_t append(std::span<const std::string> bodies, Instant now) = 0;
  // To be called now and then when nothing is appended, so that the last records are signed within their 60
  // s.
  virtual void tick(Instant now) = 0;

  // Vouches that records from..to are a whole export ending in the hash of `to`. Not stored. Any thread.
  [[nodiscard]] virtual Checkpoint seal_export(std::uint64_t from, std::uint64_t to, Instant now) const = 0;

  // In a child made by fork(): lets go of the lock, so that a killed parent can be restarted while the child
  // still writes a snapshot. The store must not be used in the child otherwise.
  virtual void abandon_in_child() noexcept = 0;
};

}  // namespace tranche::journal
