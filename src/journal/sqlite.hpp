// SPDX-License-Identifier: Apache-2.0
#pragma once
// SQLite with owners and exceptions. Says what each of its errors means for the journal.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <sqlite3.h>
#include <string>
#include <string_view>

namespace tranche::journal {

class Database;

// A prepared statement. Parameters are bound by position from 1; blobs must outlive the step.
class Statement {
 public:
  Statement() = default;
  Statement(const Database& database, std::string_view sql);

  Statement& bind(int position, std::uint64_t number);
  Statement& bind_blob(int position, std::string_view bytes);
  Statement& bind_blob(int position, std::span<const unsigned char> bytes);

  // True while there is a row. Throws as throw_sqlite_error does.
  [[nodiscard]] bool step();
  // Runs to the end and readies the statement for the next time, also when it throws.
  void run();
  void reset() noexcept;

  [[nodiscard]] std::uint64_t number(int column) const;
  [[nodiscard]] std::string_view text(int column) const;
  // Empty and false unless the column really holds a blob: a damaged type is damage.
  [[nodiscard]] bool blob(int column, std::string_view& bytes) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_{};
};

class Database {
 public:
  enum class Access { kReadWrite, kReadOnly, kImmutable };  // kImmutable: and nobody else writes either.

  Database() = default;
  Database(const std::filesystem::path& file, Access access, const std::string& vfs);

  void execute(const char* sql) const;
  [[nodiscard]] std::uint64_t number(
      const char* sql) const;  // The first column of the first row; 0 without one.
  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_{};
};

// DiskFull: no space, and the transaction can be rolled back. Corrupt (sequence 0): the file is not sound.
// DiskFailed: anything else. Does nothing for SQLITE_OK.
void throw_sqlite_error(sqlite3* handle, int code, const char* doing);

}  // namespace tranche::journal
