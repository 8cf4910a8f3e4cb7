// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/check.hpp"

namespace tranche::cli {
namespace {

constexpr std::array kOutputs{std::pair{"table", Output::kTable},
                              std::pair{"wide", Output::kWide},
                              std::pair{"json", Output::kJson},
                              std::pair{"jsonl", Output::kJsonl},
                              std::pair{"yaml", Output::kYaml},
                              std::pair{"csv", Output::kCsv},
                              std::pair{"name", Output::kName}};

// Terminal columns a UTF-8 text takes, counting code points: our own output has no wide characters.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

bool is_plain(std::string_view text) {
  unsigned odd = 0;  // Without a branch: most cells are short and plain.
  for (const char c : text) odd |= static_cast<unsigned>(c < 0x20) | static_cast<unsigned>(c == 0x7F);
  return odd == 0;
}

// Control characters of somebody else's text must not reach a terminal.
void append_printable(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F ? ' ' : c;
  }
}

void append_csv_cell(std::string& out, std::string_view cell) {
  if (cell.find_first_of(",\"\n\r") == std::string_view::npos) {
    out += cell;
    return;
  }
  out += '"';
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

}  // namespace

Output parse_output(std::string_view name) {
  for (const auto& [text, output] : kOutputs) {
    if (name == text) return output;
  }
  throw std::invalid_argument("-o takes table, wide, json, jsonl, yaml, csv or name, not '" +
                              std::string(name) + "'");
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) widths_.push_back(width(column.title));
}

void Table::reserve(std::size_t rows, std::size_t bytes_each) {
  cells_.reserve(rows * bytes_each);
  ends_.reserve(rows * columns_.size());
}

void Table::add(std::span<const std::string_view> row) {
  TRANCHE_CHECK(row.size() == columns_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string_view cell = row[i];
    const bool plain = is_plain(cell);
    all_plain_ = all_plain_ && plain;
    widths_[i] = std::max(widths_[i], plain ? cell.size() : width(cell));
    cells_ += cell;
    TRANCHE_CHECK(cells_.size() <= UINT32_MAX);
    ends_.push_back(static_cast<std::uint32_t>(cells_.size()));
  }
}

void Table::add(const std::vector<std::string>& row) {
  const std::vector<std::string_view> cells(row.begin(), row.end());
  add(std::span(cells));
}

void Table::append_row(std::string& out,
                       std::span<const std::string_view> cells,
                       const std::vector<std::size_t>& shown) const {
  const std::size_t start = out.size();
  for (const std::size_t i : shown) {
    const std::string_view value = cells[i];
    const bool plain = all_plain_ || is_plain(value);
    const std::size_t padding = widths_[i] - (plain ? value.size() : width(value));
    if (columns_[i].align == Align::kRight) out.append(padding, ' ');
    plain ? static_cast<void>(out += value) : append_printable(out, value);
    out.append((columns_[i].align == Align::kLeft ? padding : 0) + 2, ' ');
  }
  while (out.size() > start && out.back() == ' ') out.pop_back();
  out += '\n';
}

std::string Table::text(Show most) const {
  const std::size_t count = columns_.size();
  std::vector<std::size_t> shown;
  std::size_t line = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (most == Show::kAlways && columns_[i].show == Show::kWide) continue;
    shown.push_back(i);
    line += widths_[i] + 2;
  }
  std::string out;
  out.reserve(line * (rows() + 1));
  std::vector<std::string_view> cells(count);
  for (std::size_t i = 0; i < count; ++i) cells[i] = columns_[i].title;
  append_row(out, cells, shown);
  for (std::size_t row = 0; row < rows(); ++row) {
    for (std::size_t i = 0; i < count; ++i) cells[i] = cell(row * count + i);
    append_row(out, cells, shown);
  }
  return out;
}

std::string Table::csv() const {
  std::string out;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (i != 0) out += ',';
    append_csv_cell(out, columns_[i].title);
  }
  out += '\n';
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (i % columns_.size() != 0) out += ',';
    append_csv_cell(out, cell(i));
    if ((i + 1) % columns_.size() == 0) out += '\n';
  }
  return out;
}

}  // namespace tranche::cli
