// SPDX-License-Identifier: Apache-2.0
#include "journal/sqlite.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <sys/statvfs.h>

#include "journal/error.hpp"

namespace tranche::journal {
namespace {

// SQLite reports a shared-memory index that cannot grow as an I/O error without an errno. It is one harmless
// case of a full disk: the index is rebuilt, and nothing was committed.
bool is_out_of_space(sqlite3* handle, int code) {
  const int error = sqlite3_system_errno(handle);
  if (error == ENOSPC || error == EDQUOT) return true;
  if (code != SQLITE_IOERR_SHMSIZE && code != SQLITE_IOERR_SHMMAP) return false;
  const char* file = sqlite3_db_filename(handle, "main");
  struct statvfs about{};
  return file != nullptr && ::statvfs(file, &about) == 0 && about.f_bavail * about.f_frsize < (64U << 10);
}

std::string immutable_uri(const std::filesystem::path& file) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    const bool is_special = c == '?' || c == '#' || c == '%';
    if (is_special) {
      std::array<char, 4> code{};
      std::snprintf(code.data(), code.size(), "%%%02x", static_cast<unsigned>(c));
      uri += code.data();
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

void throw_sqlite_error(sqlite3* handle, int code, const char* doing) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  const int extended = handle != nullptr ? sqlite3_extended_errcode(handle) : code;
  const std::string text = std::string("journal: ") + doing + ": " +
                           (handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code)) + " (SQLite " +
                           std::to_string(extended) + ")";
  switch (code & 0xFF) {
    case SQLITE_FULL:
      throw DiskFull(text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Corrupt(0, text);
    case SQLITE_NOMEM:
      throw std::bad_alloc();
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      if (handle != nullptr && is_out_of_space(handle, extended)) throw DiskFull(text);
      break;
    default:
      break;
  }
  throw DiskFailed(text);
}

Statement::Statement(const Database& database, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database.handle(),
                                      sql.data(),
                                      static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT,
                                      &statement,
                                      nullptr);
  statement_.reset(statement);
  throw_sqlite_error(database.handle(), code, "prepare");
}

Statement& Statement::bind(int position, std::uint64_t number) {
  sqlite3_bind_int64(statement_.get(), position, static_cast<sqlite3_int64>(number));
  return *this;
}

Statement& Statement::bind_blob(int position, std::string_view bytes) {
  // A null pointer would bind NULL; an empty body is an empty blob.
  sqlite3_bind_blob64(
      statement_.get(), position, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind_blob(int position, std::span<const unsigned char> bytes) {
  return bind_blob(position, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) throw_sqlite_error(sqlite3_db_handle(statement_.get()), code, "step");
  return false;
}

void Statement::run() {
  const int code = sqlite3_step(statement_.get());
  if (code != SQLITE_DONE && code != SQLITE_ROW) {
    try {
      throw_sqlite_error(sqlite3_db_handle(statement_.get()), code, sqlite3_sql(statement_.get()));
    } catch (...) {
      reset();
      throw;
    }
  }
  reset();
}

void Statement::reset() noexcept {
  sqlite3_reset(statement_.get());
}

std::uint64_t Statement::number(int column) const {
  return static_cast<std::uint64_t>(sqlite3_column_int64(statement_.get(), column));
}

std::string_view Statement::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_.get(), column);
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

bool Statement::blob(int column, std::string_view& bytes) const {
  bytes = {};
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_BLOB) return false;
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  if (data != nullptr) bytes = {static_cast<const char*>(data), size};
  return data != nullptr || size == 0;
}

Database::Database(const std::filesystem::path& file, Access access, const std::string& vfs) {
  const int flags =
      access == Access::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const std::string name = access == Access::kImmutable ? immutable_uri(file) : file.string();
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(name.c_str(),
                      &handle,
                      flags | SQLITE_OPEN_NOMUTEX | (access == Access::kImmutable ? SQLITE_OPEN_URI : 0),
                      vfs.empty() ? nullptr : vfs.c_str());
  handle_.reset(handle);
  throw_sqlite_error(handle, code, "open");
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 5'000);  // Another process may be reading; only recovery ever waits.
}

void Database::execute(const char* sql) const {
  throw_sqlite_error(handle(), sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr), sql);
}

std::uint64_t Database::number(const char* sql) const {
  Statement statement(*this, sql);
  return statement.step() ? statement.number(0) : 0;
}

}  // namespace tranche::journal
