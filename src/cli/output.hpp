// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a command prints: data on stdout in the form that was asked for, talk on stderr.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tranche::cli {

enum class Output { kTable, kWide, kJson, kJsonl, kYaml, kCsv, kName };

// Names as `-o` takes them; throws std::invalid_argument with the list of names for any other.
Output parse_output(std::string_view name);

// Exit codes are part of the contract with scripts (docs/cli.md).
enum Exit : int {
  kOk = 0,
  kOther = 1,
  kUsage = 2,
  kNotFound = 3,
  kForbidden = 4,
  kConflict = 5,
  kRefused = 6,
  kNoCapacity = 7,
  kUnreachable = 8,
  kJobFailed = 100,  // `run --wait`: the job's own end; the numbers SkyPilot uses.
  kJobStopped = 103,
  kTimedOut = 124,
  kInterrupted = 130,
};

enum class Align { kLeft, kRight };
enum class Show { kAlways, kWide };  // kWide: only with -o wide and in CSV.
struct Column {
  std::string title{};
  Align align = Align::kLeft;
  Show show = Show::kAlways;
};

// Rows of text under titles. Prints aligned, or as CSV; cells are never cut. All cells share one piece of
// memory: lists of ten thousand rows are ordinary.
class Table {
 public:
  explicit Table(std::vector<Column> columns);
  void reserve(std::size_t rows, std::size_t bytes_each);
  void add(std::initializer_list<std::string_view> row) { add(std::span(row.begin(), row.size())); }
  void add(std::span<const std::string_view> row);
  void add(const std::vector<std::string>& row);
  [[nodiscard]] bool empty() const { return ends_.empty(); }
  [[nodiscard]] std::size_t rows() const { return columns_.empty() ? 0 : ends_.size() / columns_.size(); }
  [[nodiscard]] std::string text(Show most = Show::kAlways) const;
  [[nodiscard]] std::string csv() const;

 private:
  void append_row(std::string& out,
                  std::span<const std::string_view> cells,
                  const std::vector<std::size_t>& shown) const;
  [[nodiscard]] std::string_view cell(std::size_t index) const {
    const std::size_t start = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(cells_).substr(start, ends_[index] - start);
  }
  std::vector<Column> columns_{};
  std::vector<std::size_t> widths_{};  // In terminal columns, of the widest cell so far.
  std::string cells_{};
  std::vector<std::uint32_t> ends_{};  // Of each cell in cells_, row by row.
  bool all_plain_ = true;              // Printable ASCII alone: as wide as it is long.
};

// JSON as the server sent it, made readable: indented JSON, or YAML. Text that is no JSON comes back as it
// is.
std::string indented_json(std::string_view json);
std::string yaml_of_json(std::string_view json);
// The members of `items`, one on each line; an object without `items` is one line.
std::string json_lines(std::string_view json);

}  // namespace tranche::cli
