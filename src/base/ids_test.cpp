// SPDX-License-Identifier: Apache-2.0
#include "base/ids.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"

namespace tranche {
namespace {

TEST_CASE("ids: what is printed is read back, and sorts like the number") {
  Random random(7);
  std::uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = last + 1 + random.below(1000);
    CHECK(parse_id("job_", text(JobId{value})) == value);
    CHECK(text(JobId{last}) < text(JobId{value}));
    last = value;
  }
  CHECK(text(JobId{1}) == "job_000001");
  CHECK(parse_id("job_", text(JobId{UINT64_MAX})) == UINT64_MAX);
}

TEST_CASE("ids: the id of a party tells its kind") {
  const PartyId ana = PartyId::make(PartyKind::kUser, 5);
  CHECK(text(ana) == "usr_000005");
  CHECK(parse_party_id("usr_000005") == ana);
  CHECK(parse_party_id("platform") == kPlatform);
  CHECK_FALSE(parse_party_id("job_000005"));
}

TEST_CASE("ids: letters that look alike are read as the digit meant, anything else is no id") {
  CHECK(parse_id("job_", "job_00000o") == 0);
  CHECK(parse_id("job_", "job_00000l") == 1);
  CHECK_FALSE(parse_id("job_", "tok_000001"));
  CHECK_FALSE(parse_id("job_", "job_"));
  CHECK_FALSE(parse_id("job_", "job_00U"));
  CHECK_FALSE(parse_id("job_", "job_ZZZZZZZZZZZZZ"));
  CHECK_FALSE(parse_id("job_", "job_00000000000001"));
}

}  // namespace
}  // namespace tranche
