// SPDX-License-Identifier: Apache-2.0
#include "sim/csv.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <zlib.h>

namespace tranche::sim {
namespace {

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

std::string whole_text(const std::string& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzopen(path.c_str(), "rb"));
  if (!file) throw CsvError(path + ": " + (errno != 0 ? std::strerror(errno) : "cannot be opened"));
  std::string text;
  std::array<char, 1 << 16> piece{};
  for (;;) {
    const int got = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    if (got < 0) {
      int code = 0;
      const char* why = gzerror(file.get(), &code);
      throw CsvError(path + ": " + (code == Z_ERRNO ? std::strerror(errno) : why));
    }
    if (got == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) throw CsvError(path + ": the gzip stream ends too early");
  return text;
}

}  // namespace

CsvTable CsvTable::read(const std::string& path) {
  return parse(whole_text(path), path);
}

CsvTable CsvTable::parse(std::string text, std::string name) {
  CsvTable table;
  table.name_ = std::move(name);
  table.text_ = std::move(text);
  table.split();
  return table;
}

void CsvTable::split() {
  std::size_t from = 0;
  if (text_.starts_with("\xEF\xBB\xBF")) from = 3;  // A byte order mark, as spreadsheets leave.
  for (std::size_t number = 1; from < text_.size(); ++number) from = split_line(from, number);
  if (lines_.empty()) throw CsvError(name_ + ": empty; a first line with column names is expected");
  const Line head = lines_.front();
  for (std::size_t i = 0; i < head.cells; ++i) titles_.emplace_back(cell(0, i));
  lines_.erase(lines_.begin());
}

// One line becomes cells; returns where the next begins. Quotes may enclose a cell, commas included.
std::size_t CsvTable::split_line(std::size_t from, std::size_t line_number) {
  const std::size_t newline = text_.find('\n', from);
  std::size_t end = newline == std::string::npos ? text_.size() : newline;
  const std::size_t next = newline == std::string::npos ? text_.size() : newline + 1;
  if (end > from && text_[end - 1] == '\r') --end;
  if (end == from) return next;
  Line line{cells_.size(), 0, line_number};
  for (std::size_t start = from; start <= end; ++line.cells) {
    if (start < end && text_[start] == '"') {
      const std::size_t close = text_.find('"', start + 1);
      if (close == std::string::npos || close >= end || (close + 1 < end && text_[close + 1] != ',')) {
        throw CsvError(name_ + " line " + std::to_string(line_number) + ": a quote is not closed");
      }
      cells_.emplace_back(start + 1, close - start - 1);
      start = close + 2;
      if (close + 1 == end) start = end + 1;
    } else {
      const std::size_t comma = std::min(text_.find(',', start), end);
      cells_.emplace_back(start, comma - start);
      start = comma + 1;
    }
  }
  lines_.push_back(line);
  return next;
}

bool CsvTable::has(std::string_view column) const {
  return std::find(titles_.begin(), titles_.end(), column) != titles_.end();
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::find(titles_.begin(), titles_.end(), name);
  if (found != titles_.end()) return static_cast<std::size_t>(found - titles_.begin());
  std::string message = name_ + ": no column '" + std::string(name) + "'; the first line names";
  for (const std::string& title : titles_) message += " " + title;
  throw CsvError(message);
}

std::string_view CsvTable::cell(std::size_t row, std::size_t column) const {
  const Line& line = lines_.at(row);
  if (column >= line.cells) return {};
  const auto& [offset, length] = cells_[line.first_cell + column];
  return std::string_view(text_).substr(offset, length);
}

std::int64_t CsvTable::integer(std::size_t row, std::size_t column) const {
  const std::string_view text = cell(row, column);
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || text.empty()) {
    throw error(row,
                "'" + std::string(text) + "' in column " + titles_.at(column) + " is not a whole number");
  }
  return value;
}

double CsvTable::number(std::size_t row, std::size_t column) const {
  const std::string_view text = cell(row, column);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || text.empty()) {
    throw error(row, "'" + std::string(text) + "' in column " + titles_.at(column) + " is not a number");
  }
  return value;
}

CsvError CsvTable::error(std::size_t row, const std::string& why) const {
  return CsvError(name_ + " line " + std::to_string(lines_.at(row).number) + ": " + why);
}

}  // namespace tranche::sim
