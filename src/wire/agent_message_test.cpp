// SPDX-License-Identifier: Apache-2.0
#include "wire/agent_message.hpp"

#include <doctest/doctest.h>

#include "wire/codec.hpp"
#include "wire/why.hpp"

namespace tranche::wire {
namespace {

using namespace std::chrono_literals;

TEST_CASE("agent message: what was framed is what is opened") {
  LeaseGrant grant{.lease = {7}, .epoch = 3, .job = {9}, .expires_in = 30s};
  grant.slices.push_back(
      {.device = {4}, .uuid = "GPU-1", .isolation = Isolation::kSoft, .vram = gigabytes(12)});
  grant.spec.run = "./serve";
  grant.spec.envs = {{"A", "1"}};
  const std::string bytes = frame_bytes({.sequence = 5, .acknowledged = 2}, grant);
  const auto frame = decode<AgentFrame>(bytes);
  REQUIRE(frame.has_value());
  CHECK(frame->sequence == 5);
  CHECK(frame->acknowledged == 2);
  CHECK(*open_frame<LeaseGrant>(*frame) == grant);
  CHECK(open_frame<Hello>(*frame).error() == "the frame holds another kind of message");
}

TEST_CASE("agent message: versions meet in the highest both know, or not at all") {
  CHECK(agree_on_version({.version_min = 1, .version_max = 3}, 2, 5) == 3);
  CHECK(agree_on_version({.version_min = 2, .version_max = 9}, 1, 4) == 4);
  CHECK_FALSE(agree_on_version({.version_min = 5, .version_max = 6}, 1, 4));
  CHECK_FALSE(agree_on_version({.version_min = 1, .version_max = 1}, 2, 4));
}

TEST_CASE("agent message: the first bytes of a frame stay as they are in every version") {
  const std::string bytes =
      frame_bytes({.version = 1, .sequence = 2, .acknowledged = 1}, Parting{.reason = "version"});
  CHECK(bytes == std::string("\x0F\x01\x02\x01\x03\x0A\x09\x07version\x00", 16));
}

TEST_CASE("receipt: a scrub is clean only when all that was zeroed was read back as zero") {
  ScrubReceipt receipt{.zeroed = gigabytes(1), .verified = gigabytes(1)};
  CHECK(is_clean(receipt));
  receipt.nonzero_bytes = 1;
  CHECK_FALSE(is_clean(receipt));
  receipt = {.zeroed = gigabytes(2), .verified = gigabytes(1)};
  CHECK_FALSE(is_clean(receipt));
  CHECK_FALSE(is_clean(ScrubReceipt{}));
}

TEST_CASE("why: the API shows it with the words the conventions use") {
  Why why{.job = {31}, .state = "pending", .reason = WaitReason::kQuota, .message = "at its limit"};
  why.starts = WhyStarts{.p50 = Instant(1'794'773'395s), .p90 = Instant(1'794'773'995s)};
  why.sooner = {{.change = "--gpus 10GB", .starts_in = 4min}};
  why.not_the_cause = {WaitReason::kBudget, WaitReason::kHealth};
  CHECK(to_json(why) ==
        R"({"job":"job_00000Z","state":"pending","reason":"quota","message":"at its limit",)"
        R"("since":"1970-01-01T00:00:00Z","ahead":[],"ahead_count":0,)"
        R"("starts":{"p50":"2026-11-15T20:09:55Z","p90":"2026-11-15T20:19:55Z","predictions":0},)"
        R"("sooner":[{"change":"--gpus 10GB","starts_in":"4m"}],"not_the_cause":["budget","health"]})");
  CHECK(*from_json<Why>(to_json(why)) == why);
}

}  // namespace
}  // namespace tranche::wire
