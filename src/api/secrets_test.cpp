// SPDX-License-Identifier: Apache-2.0
#include "api/secrets.hpp"

#include <doctest/doctest.h>
#include <sodium.h>

#include "api/auth_limiter.hpp"
#include "api/sealer.hpp"
#include "api/zones.hpp"

namespace tranche::api {
namespace {

TEST_CASE("sealer: what is sealed is opened by its key alone, and never looks the same twice") {
  REQUIRE(sodium_init() >= 0);
  Sealer::Key key{};
  key[0] = 1;
  const Sealer sealer(key);
  const std::string sealed = sealer.seal("hunter2");
  CHECK(sealed.find("hunter2") == std::string::npos);
  CHECK(sealed != sealer.seal("hunter2"));
  CHECK(sealer.open(sealed) == "hunter2");
  CHECK(sealer.open(sealer.seal("")) == "");
  key[0] = 2;
  CHECK_FALSE(Sealer(key).open(sealed));
  CHECK_FALSE(sealer.open("hunter2"));
  CHECK_FALSE(sealer.open("sealed:"));
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string bad = sealed;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    CHECK(sealer.open(bad) != std::string("hunter3"));
  }
}

TEST_CASE("keys that follow from ours are the same for the same name, and nobody else's") {
  Sealer::Key key{};
  const Sealer sealer(key);
  const auto volumes = sealer.open("derived:volumes of tenant_1");
  REQUIRE(volumes);
  CHECK(volumes->size() == 64);
  CHECK(volumes == sealer.open("derived:volumes of tenant_1"));
  CHECK(volumes != sealer.open("derived:volumes of tenant_2"));
  key[0] = 1;
  CHECK(volumes != Sealer(key).open("derived:volumes of tenant_1"));
}

TEST_CASE("secrets: a token is 256 bits that nobody has seen before") {
  const std::string one = new_token_secret();
  CHECK(one.size() == 4 + 43);
  CHECK(one.starts_with("trn_"));
  CHECK(one != new_token_secret());
}

TEST_CASE("secrets: passwords match their own argon2id hash") {
  const std::string hash = hash_password("correct horse battery");
  CHECK(hash.starts_with("$argon2id$"));
  CHECK(password_matches(hash, "correct horse battery"));
  CHECK_FALSE(password_matches(hash, "correct horse batterz"));
}

TEST_CASE("auth limiter: ten wrong guesses a minute, for each account apart") {
  AuthLimiter limiter;
  const auto start = AuthLimiter::Clock::time_point{} + std::chrono::hours(1);
  for (int i = 0; i < 10; ++i) {
    CHECK(limiter.may_try("ana", start));
    limiter.failed("ana", start);
  }
  CHECK_FALSE(limiter.may_try("ana", start + std::chrono::seconds(59)));
  CHECK(limiter.may_try("bob", start));
  CHECK(limiter.may_try("ana", start + std::chrono::seconds(60)));
}

TEST_CASE("zones: offsets change when the clocks of the zone do") {
  const auto madrid = zone_offsets("Europe/Madrid");
  REQUIRE(madrid);
  CHECK(madrid->front().seconds == 3600);
  CHECK((*madrid)[1].seconds == 7200);
  CHECK((*madrid)[1].from ==
        Instant(std::chrono::sys_days(std::chrono::year(2020) / 3 / 29) + std::chrono::hours(1)));
  CHECK_FALSE(zone_offsets("Mars/Olympus"));
  CHECK(zone_offsets("UTC")->size() == 1);
}

}  // namespace
}  // namespace tranche::api
