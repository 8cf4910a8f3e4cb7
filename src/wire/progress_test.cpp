// SPDX-License-Identifier: Apache-2.0
#include "wire/progress.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"

namespace tranche::wire {
namespace {

TEST_CASE("progress: lines of the protocol are read") {
  const auto step = parse_progress_line("tranche: step 120/1000 loss=0.41 lr=1e-3");
  REQUIRE(step);
  CHECK(step->unit == WorkUnit::kStep);
  CHECK(step->done == 120);
  CHECK(step->total == 1000);
  CHECK(step->metrics == "loss=0.41 lr=1e-3");
  const auto tokens = parse_progress_line("tranche: tokens 5\r");
  REQUIRE(tokens);
  CHECK(tokens->unit == WorkUnit::kToken);
  CHECK(tokens->total == 0);
  const auto failed = parse_progress_line("tranche: failed frame 17 code=3 ms=20");
  REQUIRE(failed);
  CHECK(failed->verdict == UnitVerdict{17, false, 3, 20'000});
  const auto saved = parse_progress_line("tranche: checkpoint run-3/step-1200.pt");
  REQUIRE(saved);
  CHECK(saved->checkpoint == "run-3/step-1200.pt");
  CHECK(saved->unit == WorkUnit::kNone);
}

TEST_CASE("progress: anything else is the job's own") {
  for (const char* line : {"",
                           "tranche:",
                           "tranche: ",
                           "tranche: step",
                           "tranche: step x",
                           "tranche: step 1/",
                           "tranche: step -1",
                           "tranche: step 1/x",
                           "tranche: laps 3",
                           "step 1/2",
                           "tranche: step 99999999999999999999",
                           "tranche: done",
                           "tranche: done frame",
                           " tranche: step 1",
                           "tranche: done lap 1",
                           "tranche: checkpoint",
                           "tranche: checkpoint /etc/passwd",
                           "tranche: checkpoint ../other",
                           "tranche: checkpoint a/../../b",
                           "tranche: checkpoint a//b",
                           "tranche: checkpoint a/",
                           "tranche: checkpoint .",
                           "tranche: checkpoint two words"})
    CHECK_FALSE(parse_progress_line(line));
  CHECK_FALSE(parse_progress_line("tranche: step 1 " + std::string(600, 'x')));
  const auto odd = parse_progress_line("tranche: step 1 a=\" b=1 =2 c=\x01");
  REQUIRE(odd);
  CHECK(odd->metrics == "b=1");
}

TEST_CASE("progress: no bytes crash the reader") {
  Random random(11);
  const std::string good = "tranche: failed frame 17 code=3 ms=20 loss=0.1";
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good.substr(0, random.below(good.size() + 1));
    for (int flips = 0; flips < 3 && !bad.empty(); ++flips)
      bad[random.below(bad.size())] = static_cast<char>(random.below(256));
    static_cast<void>(parse_progress_line(bad));
  }
}

TEST_CASE("progress: a set of units stays sorted and joined") {
  UnitSet set{{1, 5}};
  CHECK(remove_unit(set, 3));
  CHECK_FALSE(remove_unit(set, 3));
  CHECK(text(set) == "1-2, 4-5");
  add_unit(set, 7);
  add_unit(set, 6);
  add_unit(set, 3);
  add_unit(set, 3);
  CHECK(text(set) == "1-7");
  CHECK(count_of(set) == 7);
  for (const std::int64_t unit : {1, 7, 4}) CHECK(remove_unit(set, unit));
  CHECK(text(set) == "2-3, 5-6");
}

TEST_CASE("progress: the command for a unit") {
  CHECK(command_for("r -f {frame} -o f_{frame:04}.png", "frame", 17) == "r -f 17 -o f_0017.png");
  CHECK(command_for("awk '{print}' {frames} {frame", "frame", 1) == "awk '{print}' {frames} {frame");
  CHECK(command_for("{frame:2}{frame:x}", "frame", 123) == "123{frame:x}");
  CHECK(command_for("frame=a; echo ${frame} {frame}", "frame", 5) ==
        "frame=a; echo ${frame} 5");  // A variable.
}

}  // namespace
}  // namespace tranche::wire
