// SPDX-License-Identifier: Apache-2.0
#pragma once
// Comma-separated files with a header line, plain or gzip-compressed. Every complaint names file, line,
// column.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::sim {

struct TraceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CsvFile {
 public:
  // Reads all of it. Throws TraceError when it cannot be read, is damaged, or has no header.
  explicit CsvFile(const std::string& path);

  [[nodiscard]] std::size_t rows() const { return lines_.size(); }
  // Column by title; throws with the titles there are.
  [[nodiscard]] int column(std::string_view title) const;
  [[nodiscard]] int column_if_any(std::string_view title) const;  // -1: none

  [[nodiscard]] std::string_view text(std::size_t row, int column) const;
  // A whole number in [low, high]; throws naming the cell.
  [[nodiscard]] std::int64_t number(std::size_t row, int column, std::int64_t low, std::int64_t high) const;
  [[noreturn]] void complain(std::size_t row, int column, const std::string& what) const;

 private:
  void split(std::string_view line, std::size_t line_number);

  std::string path_;
  std::string content_;
  std::vector<std::string> titles_;
  std::vector<std::size_t> lines_;       // Line number in the file of each row.
  std::vector<std::string_view> cells_;  // titles_.size() a row.
};

}  // namespace tranche::sim
