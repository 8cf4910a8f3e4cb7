// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reading records and checkpoints from a SQLite connection, each record checked against the chain first.
#include <cstdint>
#include <optional>
#include <vector>

#include "journal/sqlite.hpp"
#include "journal/store.hpp"

namespace tranche::journal {

inline constexpr std::uint64_t kJournalFormat = 1;
inline constexpr std::uint64_t kApplicationId = 0x54524E43;  // "TRNC": says whose file this is.

// Refuses files of others and formats newer than this release. False: there is no schema yet.
[[nodiscard]] bool check_format(const Database& database);
void create_schema(const Database& database, const PublicKey& key);
[[nodiscard]] PublicKey stored_public_key(const Database& database);

// One connection for reading; one thread at a time.
class RecordTable {
 public:
  explicit RecordTable(Database database);

  [[nodiscard]] std::uint64_t last_sequence();
  [[nodiscard]] Hash hash_at(std::uint64_t sequence);
  void scan(std::uint64_t from, std::uint64_t to, const Reader::VisitWithHash& visit);
  void scan_back(std::uint64_t from, std::uint64_t to, const Reader::Visit& visit);
  [[nodiscard]] std::vector<Checkpoint> checkpoints(std::uint64_t from, std::uint64_t to);
  [[nodiscard]] std::optional<Checkpoint> last_checkpoint();
  [[nodiscard]] const Database& database() const { return database_; }

 private:
  [[nodiscard]] bool scan_part(std::uint64_t from,
                               std::uint64_t to,
                               Hash& previous,
                               const Reader::VisitWithHash& visit);
  [[noreturn]] void name_the_bad_one(std::uint64_t sequence);

  Database database_{};
  Statement last_{};
  Statement hash_{};
  Statement ascending_{};
  Statement descending_{};
  Statement checkpoints_{};
};

}  // namespace tranche::journal
