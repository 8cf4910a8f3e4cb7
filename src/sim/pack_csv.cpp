// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_csv.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <zlib.h>

namespace tranche::sim {
namespace {

std::string whole_file(const std::string& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw TraceError(path + ": cannot be read: " + std::strerror(errno != 0 ? errno : ENOMEM));
  std::string content;
  std::array<char, 1 << 16> block{};
  for (;;) {
    const int got = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()));
    if (got > 0) content.append(block.data(), static_cast<std::size_t>(got));
    if (got == static_cast<int>(block.size())) continue;
    int code = Z_OK;
    const char* why = gzerror(file.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
      throw TraceError(path + ": damaged: " + (code == Z_ERRNO ? std::strerror(errno) : why));
    if (got == 0) return content;
  }
}

}  // namespace

CsvFile::CsvFile(const std::string& path) : path_(path), content_(whole_file(path)) {
  std::string_view rest(content_);
  if (rest.substr(0, 3) == "\xEF\xBB\xBF") rest.remove_prefix(3);
  std::size_t line_number = 0;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) split(line, line_number);
  }
  if (titles_.empty()) throw TraceError(path_ + ": empty: a header line with column titles is needed");
}

void CsvFile::split(std::string_view line, std::size_t line_number) {
  const bool header = titles_.empty();
  std::size_t cells = 0;
  for (;;) {
    const std::size_t comma = std::min(line.find(','), line.size());
    const std::string_view cell = line.substr(0, comma);
    header ? titles_.emplace_back(cell) : cells_.emplace_back(cell);
    ++cells;
    if (comma == line.size()) break;
    line.remove_prefix(comma + 1);
  }
  if (header) return;
  lines_.push_back(line_number);
  if (cells != titles_.size()) {
    throw TraceError(path_ + ":" + std::to_string(line_number) + ": " + std::to_string(cells) +
                     " columns, the header has " + std::to_string(titles_.size()));
  }
}

int CsvFile::column_if_any(std::string_view title) const {
  const auto at = std::find(titles_.begin(), titles_.end(), title);
  return at == titles_.end() ? -1 : static_cast<int>(at - titles_.begin());
}

int CsvFile::column(std::string_view title) const {
  const int at = column_if_any(title);
  if (at >= 0) return at;
  std::string known;
  for (const std::string& name : titles_) known += (known.empty() ? "" : ", ") + name;
  throw TraceError(path_ + ":1: no column '" + std::string(title) + "'; there are: " + known);
}

std::string_view CsvFile::text(std::size_t row, int column) const {
  return cells_[row * titles_.size() + static_cast<std::size_t>(column)];
}

void CsvFile::complain(std::size_t row, int column, const std::string& what) const {
  throw TraceError(path_ + ":" + std::to_string(lines_[row]) + ": column '" +
                   titles_[static_cast<std::size_t>(column)] + "': " + what);
}

std::int64_t CsvFile::number(std::size_t row, int column, std::int64_t low, std::int64_t high) const {
  const std::string_view cell = text(row, column);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size())
    complain(row, column, "'" + std::string(cell) + "' is not a whole number");
  if (value < low || value > high) {
    complain(row,
             column,
             std::to_string(value) + " is outside " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

}  // namespace tranche::sim
