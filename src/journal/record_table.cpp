// SPDX-License-Identifier: Apache-2.0
#include "journal/record_table.hpp"

#include <algorithm>

namespace tranche::journal {
namespace {

// A statement holds the WAL in place while it runs, so a long scan is many short ones.
constexpr std::uint64_t kRecordsAtOnce = 4'096;

[[noreturn]] void throw_missing(std::uint64_t sequence) {
  throw Corrupt(sequence, "journal: record " + std::to_string(sequence) + " is missing");
}

[[noreturn]] void throw_changed(std::uint64_t sequence) {
  throw Corrupt(sequence, "journal: record " + std::to_string(sequence) + " is not what was written");
}

template <std::size_t N>
bool take_blob(const Statement& row, int column, std::array<unsigned char, N>& out) {
  std::string_view bytes;
  if (!row.blob(column, bytes) || bytes.size() != N) return false;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return true;
}

// Steps; damage in the file that SQLite itself notices is told as damage of the record that was wanted.
bool step_towards(Statement& statement, std::uint64_t wanted) {
  try {
    return statement.step();
  } catch (const Corrupt& corrupt) {
    throw Corrupt(wanted,
                  "journal: the page of record " + std::to_string(wanted) + " is damaged: " + corrupt.what());
  }
}

class ResetAtEnd {
 public:
  explicit ResetAtEnd(Statement& statement) : statement_(statement) {}
  ResetAtEnd(const ResetAtEnd&) = delete;
  ResetAtEnd& operator=(const ResetAtEnd&) = delete;
  ~ResetAtEnd() { statement_.reset(); }

 private:
  Statement& statement_;
};

Checkpoint checkpoint_in(const Statement& row) {
  Checkpoint checkpoint{.sequence = row.number(0),
                        .at = Instant(Duration(static_cast<std::int64_t>(row.number(2))))};
  if (!take_blob(row, 1, checkpoint.head) || !take_blob(row, 3, checkpoint.signature)) {
    throw Corrupt(checkpoint.sequence,
                  "journal: the checkpoint at record " + std::to_string(checkpoint.sequence) + " is damaged");
  }
  return checkpoint;
}

}  // namespace

bool check_format(const Database& database) {
  const auto format = database.number("PRAGMA user_version");
  const auto owner = database.number("PRAGMA application_id");
  if (format == 0 && owner == 0 && database.number("SELECT count(*) FROM sqlite_schema") == 0) return false;
  if (owner != kApplicationId) throw Unusable("journal.db was not written by Tranche");
  if (format > kJournalFormat) {
    throw Unusable("journal.db has format " + std::to_string(format) + "; this release knows formats up to " +
                   std::to_string(kJournalFormat) + ": use the newer release that wrote it");
  }
  return true;
}

void create_schema(const Database& database, const PublicKey& key) {
  database.execute(
      "BEGIN IMMEDIATE;"
      "CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
      "CREATE TABLE journal(sequence INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL);"
      "CREATE TABLE checkpoint(sequence INTEGER PRIMARY KEY, head BLOB NOT NULL, at INTEGER NOT NULL,"
      " signature BLOB NOT NULL);");
  Statement insert(database, "INSERT INTO meta(name, value) VALUES('public_key', ?1)");
  insert.bind_blob(1, key).run();
  database.execute(("PRAGMA application_id=" + std::to_string(kApplicationId)).c_str());
  database.execute(("PRAGMA user_version=" + std::to_string(kJournalFormat) + "; COMMIT").c_str());
}

PublicKey stored_public_key(const Database& database) {
  Statement select(database, "SELECT value FROM meta WHERE name='public_key'");
  PublicKey key{};
  if (!select.step() || !take_blob(select, 0, key))
    throw Corrupt(0, "journal: the stored public key is damaged");
  return key;
}

RecordTable::RecordTable(Database database)
    : database_(std::move(database)),
      last_(database_, "SELECT max(sequence) FROM journal"),
      hash_(database_, "SELECT hash FROM journal WHERE sequence=?1"),
      ascending_(
          database_,
          "SELECT sequence, body, hash FROM journal WHERE sequence BETWEEN ?1 AND ?2 ORDER BY sequence"),
      descending_(database_,
                  "SELECT sequence, body, hash FROM journal WHERE sequence BETWEEN ?1 AND ?2"
                  " ORDER BY sequence DESC"),
      checkpoints_(database_,
                   "SELECT sequence, head, at, signature FROM checkpoint WHERE sequence BETWEEN ?1 AND ?2"
                   " ORDER BY sequence") {}

std::uint64_t RecordTable::last_sequence() {
  const ResetAtEnd reset(last_);
  return last_.step() ? last_.number(0) : 0;
}

Hash RecordTable::hash_at(std::uint64_t sequence) {
  if (sequence == 0) return kGenesis;
  const ResetAtEnd reset(hash_);
  hash_.bind(1, sequence);
  Hash hash{};
  if (!step_towards(hash_, sequence)) throw_missing(sequence);
  if (!take_blob(hash_, 0, hash)) throw_changed(sequence);
  return hash;
}

void RecordTable::scan(std::uint64_t from, std::uint64_t to, const Reader::VisitWithHash& visit) {
  from = std::max<std::uint64_t>(from, 1);
  to = std::min(to, last_sequence());
  if (from > to) return;
  Hash previous = hash_at(from - 1);
  for (std::uint64_t part = from; part <= to; part += kRecordsAtOnce)
    if (!scan_part(part, std::min(to, part + kRecordsAtOnce - 1), previous, visit)) return;
}

bool RecordTable::scan_part(std::uint64_t from,
                            std::uint64_t to,
                            Hash& previous,
                            const Reader::VisitWithHash& visit) {
  const ResetAtEnd reset(ascending_);
  ascending_.bind(1, from).bind(2, to);
  for (std::uint64_t wanted = from; wanted <= to; ++wanted) {
    if (!step_towards(ascending_, wanted) || ascending_.number(0) != wanted) throw_missing(wanted);
    std::string_view body;
    Hash stored{};
    if (!ascending_.blob(1, body) || !take_blob(ascending_, 2, stored)) throw_changed(wanted);
    const Hash hash = chain_hash(previous, wanted, body);
    if (hash != stored) name_the_bad_one(wanted);
    previous = hash;
    if (!visit(wanted, body, hash)) return false;
  }
  return true;
}

void RecordTable::scan_back(std::uint64_t from, std::uint64_t to, const Reader::Visit& visit) {
  to = std::max<std::uint64_t>(to, 1);
  from = std::min(from, last_sequence());
  // A record is checked with the hash before it, which is the next one read.
  while (from >= to && from != 0) {
    const std::uint64_t part_end = from - to >= kRecordsAtOnce ? from - kRecordsAtOnce + 1 : to;
    const ResetAtEnd reset(descending_);
    descending_.bind(1, part_end - 1).bind(2, from);
    std::string body;
    Hash stored{};
    for (std::uint64_t wanted = from;; --wanted) {
      const bool is_genesis = wanted == 0;
      if (!is_genesis && (!step_towards(descending_, wanted) || descending_.number(0) != wanted))
        throw_missing(wanted);
      Hash hash = kGenesis;
      if (!is_genesis && !take_blob(descending_, 2, hash)) throw_changed(wanted);
      if (wanted != from) {
        if (chain_hash(hash, wanted + 1, body) != stored) name_the_bad_one(wanted + 1);
        if (!visit(wanted + 1, body)) return;
      }
      if (wanted == part_end - 1) break;
      std::string_view bytes;
      if (!descending_.blob(1, bytes)) throw_changed(wanted);
      body.assign(bytes);
      stored = hash;
    }
    from = part_end - 1;
  }
}

// Record and hash do not agree. When the one before does not agree with its own predecessor either, its
// stored hash is the damage, and it is the one to name.
void RecordTable::name_the_bad_one(std::uint64_t sequence) {
  if (sequence > 1) {
    const std::uint64_t before = sequence - 1;
    const Hash previous = hash_at(before - 1);
    ascending_.reset();
    ascending_.bind(1, before).bind(2, before);
    std::string_view body;
    Hash stored{};
    if (!step_towards(ascending_, before) || !ascending_.blob(1, body) || !take_blob(ascending_, 2, stored) ||
        chain_hash(previous, before, body) != stored)
      throw_changed(before);
  }
  throw_changed(sequence);
}

std::vector<Checkpoint> RecordTable::checkpoints(std::uint64_t from, std::uint64_t to) {
  const ResetAtEnd reset(checkpoints_);
  checkpoints_.bind(1, from).bind(2, std::min(to, last_sequence()));
  std::vector<Checkpoint> found;
  while (checkpoints_.step()) found.push_back(checkpoint_in(checkpoints_));
  return found;
}

std::optional<Checkpoint> RecordTable::last_checkpoint() {
  Statement select(database_,
                   "SELECT sequence, head, at, signature FROM checkpoint ORDER BY sequence DESC LIMIT 1");
  if (!select.step()) return std::nullopt;
  return checkpoint_in(select);
}

}  // namespace tranche::journal
