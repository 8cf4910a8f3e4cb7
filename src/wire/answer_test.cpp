// SPDX-License-Identifier: Apache-2.0
// Answers as a client reads them: from a server that may be newer than itself.
#include <doctest/doctest.h>

#include "wire/api_job.hpp"
#include "wire/codec.hpp"

namespace tranche::wire {
namespace {

constexpr std::string_view kEvent =
    R"({"sequence":7,"at":"2026-11-15T20:00:00Z","type":"job_submitted","colour":"new",)"
    R"("data":{"a":[1,-2.5e3,null,true],"b":"x\"y\n"}})";

TEST_CASE("answer: a key that this build does not know is refused, unless the reader says otherwise") {
  const auto strict = from_json<LiveEvent>(kEvent);
  REQUIRE_FALSE(strict);
  CHECK(strict.error().message == "unknown key 'colour'");
  CHECK(from_json<LiveEvent>(kEvent, {.unknown_keys = UnknownKeys::kIgnored})->sequence == 7);
}

TEST_CASE("answer: a part that is passed on keeps its meaning") {
  const auto event = from_json<LiveEvent>(kEvent, {.unknown_keys = UnknownKeys::kIgnored});
  REQUIRE(event);
  CHECK(event->data.text == R"({"a":[1,-2.5e3,null,true],"b":"x\"y\n"})");
}

}  // namespace
}  // namespace tranche::wire
