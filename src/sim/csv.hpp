// SPDX-License-Identifier: Apache-2.0
#pragma once
// A table of comma-separated text, plain or gzipped, with its columns found by name.
//
// Bad files are told apart by file, line and column in the message of CsvError; nothing is guessed.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::sim {

class CsvError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class CsvTable {
 public:
  // Reads the whole file; zlib reads plain files as they are, so the name's ending decides nothing.
  static CsvTable read(const std::string& path);
  static CsvTable parse(std::string text, std::string name);  // `name` is for messages.

  [[nodiscard]] std::size_t rows() const { return lines_.size(); }
  [[nodiscard]] bool has(std::string_view column) const;
  [[nodiscard]] std::size_t column(std::string_view name) const;  // Throws, naming the columns there are.
  // Cells past the end of a short row are empty.
  [[nodiscard]] std::string_view cell(std::size_t row, std::size_t column) const;
  [[nodiscard]] std::int64_t integer(std::size_t row, std::size_t column) const;
  [[nodiscard]] double number(std::size_t row, std::size_t column) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  // "FILE line N: why", as an exception to throw.
  [[nodiscard]] CsvError error(std::size_t row, const std::string& why) const;

 private:
  struct Line {
    std::size_t first_cell = 0;
    std::size_t cells = 0;
    std::size_t number = 0;
  };
  void split();
  std::size_t split_line(std::size_t from, std::size_t line_number);

  std::string name_;
  std::string text_;
  std::vector<std::string> titles_;
  std::vector<std::pair<std::size_t, std::size_t>> cells_;  // Offset and length in text_.
  std::vector<Line> lines_;
};

}  // namespace tranche::sim
