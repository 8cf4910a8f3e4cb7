// SPDX-License-Identifier: Apache-2.0
#include "journal/sqlite_store.hpp"

#include <algorithm>
#include <atomic>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <utility>

#include "journal/anchors.hpp"
#include "journal/data_lock.hpp"
#include "journal/durable_file.hpp"
#include "journal/failpoint.hpp"
#include "journal/record_table.hpp"
#include "journal/signing_key.hpp"
#include "journal/sqlite.hpp"
#include "journal/wal_copier.hpp"

namespace tranche::journal {
namespace {

std::filesystem::path database_file(const std::filesystem::path& folder) {
  return folder / "journal.db";
}

// Also makes the connection read the file: a connection that has not yet does not know that there is a WAL to
// copy.
void prepare_for_writing(const Database& database, Synchronous synchronous) {
  database.execute("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-8000");
  switch (synchronous) {
    case Synchronous::kFull:
      return database.execute("PRAGMA synchronous=FULL");
    case Synchronous::kNormal:
      return database.execute("PRAGMA synchronous=NORMAL");
    case Synchronous::kOff:
      return database.execute("PRAGMA synchronous=OFF");
  }
}

// Gives the WAL its blocks now, and keeps them over a restart: a sync that need not grow a file is several
// times faster. Zeros after the last commit are no frames to SQLite. On a full disk it can wait.
void lay_out_wal(const Database& database, std::size_t pages) {
  int keep = 1;
  sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  sqlite3_file* wal = nullptr;
  sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER, static_cast<void*>(&wal));
  if (wal == nullptr || wal->pMethods == nullptr) return;
  const std::vector<char> zeros(64 << 10);  // SQLite's own VFS takes less than 128 KiB at a time.
  const auto wanted = static_cast<sqlite3_int64>(pages) * (4'096 + 24);
  sqlite3_int64 size = 0;
  int code = wal->pMethods->xFileSize(wal, &size);
  const bool has_grown = size < wanted;
  for (; code == SQLITE_OK && size < wanted; size += static_cast<sqlite3_int64>(zeros.size()))
    code = wal->pMethods->xWrite(wal, zeros.data(), static_cast<int>(zeros.size()), size);
  if (code == SQLITE_OK && has_grown) code = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
  if (code != SQLITE_FULL) throw_sqlite_error(nullptr, code, "lay out the WAL");
}

// On a read-only medium SQLite cannot make the index of a WAL. Without a WAL it needs none: nobody can write.
Database::Access access_to(const std::filesystem::path& file) {
  if (::access(file.parent_path().c_str(), W_OK) == 0) return Database::Access::kReadOnly;
  if (!std::filesystem::exists(file)) throw Unusable("there is no journal in " + file.parent_path().string());
  if (std::filesystem::exists(file.string() + "-wal")) {
    throw Unusable(file.parent_path().string() +
                   " cannot be written and holds a WAL: copy it elsewhere to read it");
  }
  return Database::Access::kImmutable;
}

// Connections for reading: every scan borrows its own, so readers never wait for each other or for an append.
class ReaderPool {
 public:
  ReaderPool(std::filesystem::path file, std::string vfs) : file_(std::move(file)), vfs_(std::move(vfs)) {}

  void close_idle() {
    const std::lock_guard hold(mutex_);
    idle_.clear();
  }

  template <class Use>
  auto with(Use&& use) const {
    auto table = take();
    struct Return {
      const ReaderPool& pool;
      std::unique_ptr<RecordTable>& table;
      ~Return() { pool.give_back(std::move(table)); }
    } const give_back_at_end{*this, table};
    return use(*table);
  }

 private:
  [[nodiscard]] std::unique_ptr<RecordTable> take() const {
    {
      const std::lock_guard hold(mutex_);
      if (!idle_.empty()) {
        auto table = std::move(idle_.back());
        idle_.pop_back();
        return table;
      }
    }
    Database database(file_, access_to(file_), vfs_);
    if (!check_format(database)) throw Unusable(file_.string() + " holds no journal");
    return std::make_unique<RecordTable>(std::move(database));
  }

  void give_back(std::unique_ptr<RecordTable> table) const {
    const std::lock_guard hold(mutex_);
    if (idle_.size() < 8) idle_.push_back(std::move(table));
  }

  std::filesystem::path file_{};
  std::string vfs_{};
  mutable std::mutex mutex_{};
  mutable std::vector<std::unique_ptr<RecordTable>> idle_{};
};

// The reading half, the same for a Reader and for a Store.
template <class Interface>
class PooledReads : public Interface {
 public:
  PooledReads(const std::filesystem::path& folder, const std::string& vfs)
      : pool_(database_file(folder), vfs) {}

  [[nodiscard]] Hash hash_at(std::uint64_t sequence) const override {
    return pool_.with([&](RecordTable& table) { return table.hash_at(sequence); });
  }
  void scan_with_hash(std::uint64_t from,
                      std::uint64_t to,
                      const Reader::VisitWithHash& visit) const override {
    pool_.with([&](RecordTable& table) { table.scan(from, std::min(to, this->last_sequence()), visit); });
  }
  void scan_back(std::uint64_t from, std::uint64_t to, const Reader::Visit& visit) const override {
    pool_.with(
        [&](RecordTable& table) { table.scan_back(std::min(from, this->last_sequence()), to, visit); });
  }
  [[nodiscard]] std::vector<Checkpoint> checkpoints(std::uint64_t from, std::uint64_t to) const override {
    return pool_.with([&](RecordTable& table) { return table.checkpoints(from, to); });
  }

 protected:
  [[nodiscard]] const ReaderPool& pool() const { return pool_; }
  void close_readers() { pool_.close_idle(); }

 private:
  ReaderPool pool_;
};

class SqliteReader final : public PooledReads<Reader> {
 public:
  explicit SqliteReader(const std::filesystem::path& folder) : PooledReads(folder, "") {
    key_ = pool().with([](RecordTable& table) { return stored_public_key(table.database()); });
  }
  [[nodiscard]] std::uint64_t last_sequence() const override {
    return pool().with([](RecordTable& table) { return table.last_sequence(); });
  }
  [[nodiscard]] Hash head() const override { return hash_at(last_sequence()); }
  [[nodiscard]] PublicKey public_key() const override { return key_; }

 private:
  PublicKey key_{};
};

class SqliteStore final : public PooledReads<Store> {
 public:
  SqliteStore(const std::filesystem::path& folder, SqliteOptions options);
  ~SqliteStore() override;

  [[nodiscard]] std::uint64_t last_sequence() const override { return published().sequence; }
  [[nodiscard]] Hash head() const override { return published().head; }
  std::uint64_t append(std::span<const std::string> bodies, Instant now) override;
  void tick(Instant now) override;
  [[nodiscard]] Checkpoint seal_export(std::uint64_t from, std::uint64_t to, Instant now) const override;
  [[nodiscard]] PublicKey public_key() const override { return key_->public_key(); }
  void abandon_in_child() noexcept override { lock_.abandon_in_child(); }

 private:
  void open_database();
  void check_outside_copies();
  void commit(std::span<const std::string> bodies, Instant now);
  void write_batch(std::span<const std::string> bodies,
                   Instant now,
                   Mark& mark,
                   std::optional<Checkpoint>& due);
  void tell_outside(const Mark& mark, const std::optional<Checkpoint>& due);
  [[nodiscard]] bool checkpoint_is_due(std::uint64_t last, Instant now) const;
  void copy_anchors(const Checkpoint& newest);
  void roll_back();

  [[nodiscard]] Mark published() const {
    const std::lock_guard hold(published_mutex_);
    return published_;
  }

  std::filesystem::path folder_{};
  SqliteOptions options_{};
  DataLock lock_;
  Database database_{};
  std::unique_ptr<const SigningKey> key_{};
  Statement begin_{};
  Statement insert_{};
  Statement insert_checkpoint_{};
  Statement commit_{};
  std::unique_ptr<AnchorFile> anchors_{};
  std::unique_ptr<MarkFile> mark_file_{};
  std::optional<Checkpoint> signed_{};
  std::optional<Instant> unsigned_since_{};
  std::string failure_{};
  std::mutex writing_{};
  std::size_t wal_pages_ = 0;
  mutable std::mutex published_mutex_{};
  Mark published_{};
  std::unique_ptr<WalCopier> copier_{};
};

SqliteStore::SqliteStore(const std::filesystem::path& folder, SqliteOptions options)
    : PooledReads(folder, options.vfs), folder_(folder), options_(std::move(options)), lock_(folder) {
  open_database();
  begin_ = Statement(database_, "BEGIN IMMEDIATE");
  insert_ = Statement(database_, "INSERT INTO journal(sequence, body, hash) VALUES(?1, ?2, ?3)");
  insert_checkpoint_ =
      Statement(database_, "INSERT INTO checkpoint(sequence, head, at, signature) VALUES(?1, ?2, ?3, ?4)");
  commit_ = Statement(database_, "COMMIT");
  check_outside_copies();
  lay_out_wal(database_, options_.wal_pages + options_.wal_pages / 2);
  sqlite3_wal_hook(
      database_.handle(),
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<SqliteStore*>(self)->wal_pages_ = static_cast<std::size_t>(pages);
        return SQLITE_OK;
      },
      this);
  Database copier_connection(database_file(folder_), Database::Access::kReadWrite, options_.vfs);
  prepare_for_writing(copier_connection, options_.synchronous);
  copier_ = std::make_unique<WalCopier>(
      std::move(copier_connection), writing_, options_.wal_pages, options_.wal_checkpointing);
}

SqliteStore::~SqliteStore() {
  // The writing connection must be the last to close: only it can put the WAL back and remove it.
  copier_.reset();
  close_readers();
}

void SqliteStore::open_database() {
  // Made here and private: SQLite would make it readable for all, and its other files follow this one's mode.
  File::open(database_file(folder_), O_RDWR | O_CREAT, 0600).close();
  database_ = Database(database_file(folder_), Database::Access::kReadWrite, options_.vfs);
  const bool is_new = !check_format(database_);
  if (const auto key = SigningKey::load(folder_)) key_ = std::make_unique<const SigningKey>(*key);
  if (!is_new && !key_) {
    throw Unusable("keys/journal.key is missing in " + folder_.string() +
                   ", and without it the journal cannot be signed: restore it from a backup");
  }
  if (!key_) key_ = std::make_unique<const SigningKey>(SigningKey::create(folder_));
  prepare_for_writing(database_, options_.synchronous);
  if (is_new) create_schema(database_, key_->public_key());
  if (stored_public_key(database_) != key_->public_key())
    throw Unusable("keys/journal.key is not the key of this journal: restore the right one from a backup");
  sync_folder(folder_);
}

// A database that is shorter than, or different from, what was acknowledged or signed must not be served.
void SqliteStore::check_outside_copies() {
  RecordTable table(Database(database_file(folder_), Database::Access::kReadOnly, options_.vfs));
  published_.sequence = table.last_sequence();
  published_.head = table.hash_at(published_.sequence);
  table.scan(published_.sequence, published_.sequence, [](auto, auto, const auto&) { return true; });
  if (const auto mark = read_mark(folder_)) {
    if (mark->sequence > published_.sequence) {
      throw Corrupt(published_.sequence + 1,
                    "journal: it ends at record " + std::to_string(published_.sequence) +
                        ", but records up to " + std::to_string(mark->sequence) +
                        " were acknowledged; was journal.db-wal lost?");
    }
    if (table.hash_at(mark->sequence) != mark->head) {
      throw Corrupt(mark->sequence,
                    "journal: record " + std::to_string(mark->sequence) + " is not the one acknowledged");
    }
  }
  mark_file_ = std::make_unique<MarkFile>(folder_);
  mark_file_->write(published_);

  signed_ = table.last_checkpoint();
  anchors_ = std::make_unique<AnchorFile>(options_.anchor_file.empty() ? folder_ / "anchors.jsonl"
                                                                       : options_.anchor_file);
  for (const auto& known : {signed_, anchors_->last()}) {
    if (!known) continue;
    if (known->sequence > published_.sequence) {
      throw Corrupt(published_.sequence + 1,
                    "journal: it ends at record " + std::to_string(published_.sequence) +
                        ", but a checkpoint was made at " + std::to_string(known->sequence));
    }
    if (!signed_by(*known, key_->public_key()) || table.hash_at(known->sequence) != known->head) {
      throw Corrupt(known->sequence,
                    "journal: record " + std::to_string(known->sequence) + " does not match its checkpoint");
    }
  }
  if (signed_) copy_anchors(*signed_);
}

std::uint64_t SqliteStore::append(std::span<const std::string> bodies, Instant now) {
  if (bodies.empty()) return last_sequence();
  commit(bodies, now);
  return last_sequence();
}

void SqliteStore::tick(Instant now) {
  if (!unsigned_since_) unsigned_since_ = now;
  if (failure_.empty() && checkpoint_is_due(published_.sequence, now)) commit({}, now);
}

void SqliteStore::commit(std::span<const std::string> bodies, Instant now) {
  if (failure_.empty()) failure_ = copier_->failure();
  if (!failure_.empty()) throw DiskFailed(failure_);
  Mark mark = published_;  // Only this thread changes it.
  std::optional<Checkpoint> due;
  try {
    const std::lock_guard hold(writing_);
    write_batch(bodies, now, mark, due);
  } catch (const DiskFull&) {
    roll_back();
    throw;
  } catch (const std::exception& error) {
    // It is unknown what reached the disk, so nothing may be acknowledged from here on.
    failure_ = error.what();
    roll_back();
    throw DiskFailed(failure_);
  }
  {
    const std::lock_guard hold(published_mutex_);
    published_ = mark;
  }
  tell_outside(mark, due);
  copier_->grew_to(wal_pages_);
}

void SqliteStore::tell_outside(const Mark& mark, const std::optional<Checkpoint>& due) {
  try {
    mark_file_->write(mark);
    failpoint("append.marked");
    if (!due) return;
    signed_ = due;
    unsigned_since_.reset();
    copy_anchors(*due);
    failpoint("append.anchored");
  } catch (const std::exception& error) {
    failure_ = error.what();
    throw DiskFailed(failure_);
  }
  if (options_.on_checkpoint) options_.on_checkpoint(*due);
}

void SqliteStore::write_batch(std::span<const std::string> bodies,
                              Instant now,
                              Mark& mark,
                              std::optional<Checkpoint>& due) {
  failpoint("append.begin");
  begin_.run();
  for (const std::string& body : bodies) {
    mark.head = chain_hash(mark.head, ++mark.sequence, body);
    insert_.bind(1, mark.sequence).bind_blob(2, body).bind_blob(3, mark.head).run();
  }
  failpoint("append.inserted");
  if (!unsigned_since_) unsigned_since_ = now;
  if (checkpoint_is_due(mark.sequence, now)) {
    const Instant at = signed_ ? std::max(signed_->at, now) : now;  // Never older than the one before.
    due = Checkpoint{.sequence = mark.sequence, .head = mark.head, .at = at};
    key_->sign(*due);
    insert_checkpoint_.bind(1, due->sequence)
        .bind_blob(2, due->head)
        .bind(3, static_cast<std::uint64_t>(at.time_since_epoch().count()))
        .bind_blob(4, due->signature)
        .run();
    failpoint("append.signed");
  }
  commit_.run();
  failpoint("append.committed");
}

bool SqliteStore::checkpoint_is_due(std::uint64_t last, Instant now) const {
  const std::uint64_t signed_through = signed_ ? signed_->sequence : 0;
  if (last == signed_through) return false;
  return last - signed_through >= options_.checkpoint_records ||
         (unsigned_since_ && now - *unsigned_since_ >= options_.checkpoint_interval);
}

// Usually one line. More after a start whose predecessor died, or a full disk, kept some from being written.
void SqliteStore::copy_anchors(const Checkpoint& newest) {
  const auto& last = anchors_->last();
  const std::uint64_t anchored = last ? last->sequence : 0;
  if (anchored >= newest.sequence) return;
  for (const Checkpoint& missing : checkpoints(anchored + 1, newest.sequence))
    if (!anchors_->append(missing)) return;
}

Checkpoint SqliteStore::seal_export(std::uint64_t from, std::uint64_t to, Instant now) const {
  Checkpoint seal{.sequence = to, .head = hash_at(to), .at = now};
  key_->seal(seal, from);
  return seal;
}

void SqliteStore::roll_back() {
  insert_.reset();
  insert_checkpoint_.reset();
  if (sqlite3_get_autocommit(database_.handle()) != 0) return;
  if (sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr) != SQLITE_OK &&
      failure_.empty())
    failure_ = std::string("journal: roll back: ") + sqlite3_errmsg(database_.handle());
}

}  // namespace

std::unique_ptr<Store> open_sqlite(const std::filesystem::path& folder, SqliteOptions options) {
  make_folder(folder, 0700);
  return std::make_unique<SqliteStore>(folder, std::move(options));
}

std::unique_ptr<Reader> open_sqlite_reader(const std::filesystem::path& folder) {
  return std::make_unique<SqliteReader>(folder);
}

}  // namespace tranche::journal
