// SPDX-License-Identifier: Apache-2.0
#include "agent/progress_reader.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <unistd.h>

#include "agent/unit_loop.hpp"

namespace tranche::agent {
namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("progress-" + std::to_string(::getpid()));
  Folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::uint64_t write(const char* name, const std::string& text) const {
    std::ofstream(path / name, std::ios::app | std::ios::binary) << text;
    return std::filesystem::file_size(path / name);
  }
};

TEST_CASE("progress reader: the last line counts, in pieces or whole, and nothing new says nothing") {
  const Folder folder;
  ProgressReader reader;
  CHECK_FALSE(reader.look(folder.path, 0));
  std::uint64_t size =
      folder.write("stdout", "hello\ntranche: step 1/10\ntranche: step 2/10 loss=1\ntranche: st");
  auto report = reader.look(folder.path, size);
  REQUIRE(report);
  CHECK(report->done == 2);
  CHECK_FALSE(reader.look(folder.path, size));
  size = folder.write("stdout", "ep 3/10\n");
  report = reader.look(folder.path, size);
  REQUIRE(report);
  CHECK(report->done == 3);
}

TEST_CASE("progress reader: a flood of output is skipped, verdicts in the file are not") {
  const Folder folder;
  ProgressReader reader;
  std::string flood = "tranche: step 1/10\n";
  while (flood.size() < 3'000'000) flood += std::string(100, 'x') + '\n';
  const std::uint64_t size = folder.write("stdout", flood + "tranche: step 9/10\n");
  std::string verdicts;
  for (int unit = 1; unit <= 9000; ++unit)
    verdicts += "tranche: done frame " + std::to_string(unit) + " ms=5\n";
  folder.write("progress", verdicts);
  const auto report = reader.look(folder.path, size);
  REQUIRE(report);
  CHECK(report->done == 9);
  CHECK(report->verdicts.size() == 9000);
  CHECK(report->verdicts.back().unit == 9000);
}

TEST_CASE("progress reader: no link is followed out of the lease's folder") {
  const Folder folder;
  folder.write("elsewhere", "tranche: step 5/10\n");
  std::filesystem::create_symlink(folder.path / "elsewhere", folder.path / "progress");
  ProgressReader reader;
  CHECK_FALSE(reader.look(folder.path, 0));
}

TEST_CASE("unit loop: the script gives every unit its verdict and keeps what good ones made") {
  const Folder folder;
  const std::string place = folder.path.string();
  // The first says 'hello', and brings one more while the loop is at work: quotes and lines are its own
  // affair.
  folder.write("late", unit_lines("echo \"made {unit:03}\" >\"$TRANCHE_OUTPUT/.late\"", "unit", {{4, 4}}));
  folder.write("units",
               unit_lines("test {unit} -ne 1 || cat " + place + "/late >>" + place + "/units\n" +
                              "test {unit} -ne 2 || exit 7\nprintf 'made %s\n' {unit:03} " +
                              ">\"$TRANCHE_OUTPUT/{unit}\" # $1 is nothing of ours: $1",
                          "unit",
                          {{1, 3}}));
  folder.write("loop", unit_loop("unit", place + "/units"));
  const std::string command = "TRANCHE_OUTPUT=" + place + "/output TRANCHE_RESULTS=" + place +
                              "/results TRANCHE_PROGRESS=" + place + "/progress sh " + place +
                              "/loop; test $? -eq 1";
  CHECK(std::system(command.c_str()) == 0);  // NOLINT: a script is what is tested.
  ProgressReader reader;
  const auto report = reader.look(folder.path, 0);
  REQUIRE(report);
  REQUIRE(report->verdicts.size() == 4);
  CHECK(report->verdicts[0].good);
  CHECK(report->verdicts[1].exit_code == 7);
  CHECK(report->verdicts[2].good);
  CHECK(report->verdicts[3].unit == 4);
  CHECK(report->verdicts[3].good);
  const std::string listed = "test \"$(tar --ignore-zeros -xOf " + place +
                             "/results | tr '\\n' ,)\" = 'made 001,made 003,made 004,'";
  CHECK(std::system(listed.c_str()) == 0);  // NOLINT
}

}  // namespace
}  // namespace tranche::agent
