// SPDX-License-Identifier: Apache-2.0
#include "engine/event.hpp"

#include <doctest/doctest.h>
#include <string>
#include <utility>

namespace tranche::engine {
namespace {

const std::string kLong(100, 'x');  // Longer than what a string keeps inside itself.

TEST_CASE("event: a copy is another one, and what was moved is where it went") {
  const Event first{JobSubmitted{.id = {7}, .name = kLong}};
  Event copy = first;
  REQUIRE(std::holds_alternative<JobSubmitted>(copy));
  std::get<JobSubmitted>(copy).name += 'y';
  CHECK(std::get<JobSubmitted>(first).name == kLong);
  const Event moved = std::move(copy);
  CHECK(std::get<JobSubmitted>(moved).name == kLong + 'y');
  CHECK(std::get<JobSubmitted>(moved).id == JobId{7});
}

TEST_CASE("event: an assignment changes the kind, and may be to itself") {
  Event event{Ticked{.requests_forgotten = 3}};
  const Event other{Denied{.refusal = {.message = kLong}}};
  event = other;
  REQUIRE(std::holds_alternative<Denied>(event));
  CHECK(std::get<Denied>(event).refusal.message == kLong);
  const Event& same = event;
  event = same;
  CHECK(std::get<Denied>(event).refusal.message == kLong);
  event = Event{Ticked{.requests_forgotten = 4}};
  REQUIRE(std::holds_alternative<Ticked>(event));
  CHECK(std::get<Ticked>(event).requests_forgotten == 4);
}

TEST_CASE("event: a command is made from its kind alone") {
  const SubmitJob job{.name = kLong};
  const Command made{job};
  Command assigned;
  assigned = made;
  CHECK(command_name(assigned) == "job.submit");
  CHECK(std::get<SubmitJob>(assigned).name == kLong);
  assigned = Command{Tick{}};
  CHECK(command_name(assigned) == "tick");
}

}  // namespace
}  // namespace tranche::engine
