// SPDX-License-Identifier: Apache-2.0
#include "sim/csv.hpp"

#include <cstdio>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <zlib.h>

using tranche::sim::CsvError;
using tranche::sim::CsvTable;

namespace {

std::string message_of(const std::string& text, auto&& use) {
  try {
    const CsvTable table = CsvTable::parse(text, "jobs.csv");
    use(table);
  } catch (const CsvError& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("csv: columns are found by name, whatever their order and line ends") {
  const auto table = CsvTable::parse("vc,gpus,submit\r\na,8,-5\r\n\r\n\"b,c\",1,7", "jobs.csv");
  REQUIRE(table.rows() == 2);
  CHECK(table.integer(0, table.column("submit")) == -5);
  CHECK(table.integer(1, table.column("gpus")) == 1);
  CHECK(table.cell(1, table.column("vc")) == "b,c");
  CHECK(table.has("gpus"));
  CHECK(!table.has("user"));
}

TEST_CASE("csv: a short row has empty cells at its end") {
  const auto table = CsvTable::parse("a,b,c\n1\n", "x.csv");
  CHECK(table.cell(0, 2).empty());
}

TEST_CASE("csv: errors name the file, the line and the column") {
  CHECK(message_of("a,b\n1,2\n1,x\n", [](const auto& t) { (void)t.integer(1, 1); }) ==
        "jobs.csv line 3: 'x' in column b is not a whole number");
  CHECK(message_of("a,b\n1,2\n", [](const auto& t) { (void)t.column("vc"); }) ==
        "jobs.csv: no column 'vc'; the first line names a b");
  CHECK(message_of("", [](const auto&) {}) == "jobs.csv: empty; a first line with column names is expected");
  CHECK(message_of("a\n\"open\n", [](const auto&) {}) == "jobs.csv line 2: a quote is not closed");
  CHECK(message_of("a\n1.5\n", [](const auto& t) { (void)t.integer(0, 0); }).find("not a whole number") !=
        std::string::npos);
}

TEST_CASE("csv: plain and gzipped files read the same, a cut gzip file is refused") {
  const auto folder = std::filesystem::temp_directory_path() / ("tranche-csv-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::string text = "a,b\n";
  for (int i = 0; i < 20000; ++i)
    text += std::to_string(i * 7919 % 10007) + ",word" + std::to_string(i) + "\n";
  const std::string plain = folder / "t.csv", packed = folder / "t.csv.gz", cut = folder / "cut.csv.gz";
  std::ofstream(plain) << text;
  gzFile file = gzopen(packed.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  std::filesystem::copy_file(packed, cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);

  const auto one = CsvTable::read(plain), two = CsvTable::read(packed);
  REQUIRE(one.rows() == 20000);
  REQUIRE(two.rows() == 20000);
  CHECK(one.cell(19999, 1) == two.cell(19999, 1));
  CHECK_THROWS_AS(CsvTable::read(cut), CsvError);
  CHECK_THROWS_AS(CsvTable::read(folder / "absent.csv"), CsvError);
  std::filesystem::remove_all(folder);
}
