// SPDX-License-Identifier: Apache-2.0
#pragma once
// Is the history what was written? Finds any changed, removed, inserted, reordered or cut-off record and
// names the first, from the data folder or, offline, from an exported file.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "journal/chain.hpp"
#include "journal/store.hpp"

namespace tranche::journal {

struct VerifyOptions {
  std::optional<PublicKey> public_key{};  // Whom to trust; otherwise the key beside the data.
  std::filesystem::path anchor_file{};    // The external copy; empty: `anchors.jsonl` in the folder, if any.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};  // Every few thousand records.
  const std::atomic<bool>* cancel = nullptr;
};

struct Verification {
  enum class Outcome { kIntact, kBad, kCancelled };
  Outcome outcome = Outcome::kIntact;
  std::uint64_t first_bad = 0;  // When kBad: the record, or the first one missing; 0 is the file itself.
  std::string why{};            // When kBad: for people.
  std::uint64_t records = 0;    // Checked.
  std::uint64_t checkpoints = 0;
  std::uint64_t signed_through = 0;  // Later records are chained, but no signature vouches for them yet.
  Hash head{};
};

// A data folder (a server may be running on it), or a file written by export_records.
[[nodiscard]] Verification verify(const std::filesystem::path& folder_or_file,
                                  const VerifyOptions& options = {});
// A running server's own store, from `from` on: for verification in the background.
[[nodiscard]] Verification verify(const Reader& store, std::uint64_t from, const VerifyOptions& options);

// JSON Lines: a header, every record with its hash and base64 body, the checkpoints, and a signed end, so
// that the file can be checked alone, by anyone, with the public key. `to` beyond the end means the end.
void export_records(const Store& store, std::uint64_t from, std::uint64_t to, Instant now, std::ostream& out);

}  // namespace tranche::journal
