// SPDX-License-Identifier: Apache-2.0
#include "journal/failpoint.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tranche::journal {
namespace {

TEST_CASE("failpoint: it fires from the given pass on, and only where it is armed") {
  arm_failpoints("here:error:3,there:delay");
  failpoint("here");
  failpoint("elsewhere");
  failpoint("there");
  failpoint("here");
  CHECK_THROWS_AS(failpoint("here"), FailpointError);
  CHECK_THROWS_AS(failpoint("here"), FailpointError);
  arm_failpoints("");
  CHECK_NOTHROW(failpoint("here"));
}

TEST_CASE("failpoint: a wrong text is refused") {
  CHECK_THROWS_AS(arm_failpoints("here"), std::invalid_argument);
  CHECK_THROWS_AS(arm_failpoints("here:explode"), std::invalid_argument);
  CHECK_THROWS_AS(arm_failpoints("here:kill:soon"), std::invalid_argument);
  CHECK_NOTHROW(failpoint("here"));
}

TEST_CASE("failpoint: the list names every failpoint in the module's source, and no other") {
  std::vector<std::string> in_source;
  for (const auto& entry : std::filesystem::directory_iterator(TRANCHE_SOURCE_DIR "/src/journal")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".cpp") || name.ends_with("_test.cpp")) continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (auto at = text.find("failpoint(\""); at != std::string::npos; at = text.find("failpoint(\"", at + 1))
      in_source.push_back(text.substr(at + 11, text.find('"', at + 11) - at - 11));
  }
  std::vector<std::string> listed;
  for (const auto name : failpoint_names()) listed.emplace_back(name);
  std::sort(in_source.begin(), in_source.end());
  std::sort(listed.begin(), listed.end());
  CHECK(in_source == listed);
}

}  // namespace
}  // namespace tranche::journal
