// SPDX-License-Identifier: Apache-2.0
#include "cli/human.hpp"

#include <doctest/doctest.h>
#include <vector>

namespace tranche::cli {
namespace {

using namespace std::chrono_literals;

TEST_CASE("numbers: thousandths are shown without needless zeros, and read back") {
  for (const auto& [milli, text] :
       std::vector<std::pair<std::int64_t, const char*>>{{0, "0"},
                                                         {1, "0.001"},
                                                         {500, "0.5"},
                                                         {1250, "1.25"},
                                                         {4000, "4"},
                                                         {INT64_MAX, "9223372036854775.807"}}) {
    CHECK(gpus_text(milli) == text);
    if (milli < INT64_MAX) CHECK(parse_milli(text) == milli);
  }
  CHECK(gpus_text(INT64_MIN) == "-9223372036854775.808");
  for (const char* bad : {"", ".", "1.", ".5", "-1", "1e3", "1.0000", "99999999999999999999"}) {
    CHECK_FALSE(parse_milli(bad).has_value());
  }
}

TEST_CASE("numbers: ages, sizes and hours are short") {
  CHECK(age_text(-5s) == "0s");
  CHECK(age_text(119s) == "119s");
  CHECK(age_text(10min) == "10m");
  CHECK(age_text(47h) == "47h");
  CHECK(age_text(100h) == "4d");
  CHECK(bytes_text(999) == "999B");
  CHECK(bytes_text(12'345'000'000) == "12.3GB");
  CHECK(bytes_text(80'000'000'000) == "80GB");
  CHECK(bytes_text(999'999'999) == "1GB");
  CHECK(hours_text(5400) == "1.5");
  CHECK(hours_text(1) == "0");
  CHECK(hours_text(INT64_MAX / 1000) == "2562047788015.215");
}

TEST_CASE("words: a shell gets back exactly what it took apart") {
  CHECK(shell_quoted("plain-1.0/x=y") == "plain-1.0/x=y");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(path_segment("acme/research") == "acme%2Fresearch");
}

}  // namespace
}  // namespace tranche::cli
