// SPDX-License-Identifier: Apache-2.0
// What is believed of the mix: steady where chance alone moves it, and new soon after it has turned.
#include "policy/placement_mix.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"

namespace tranche::policy {
namespace {

constexpr std::size_t kKinds = 150;

// Few kinds are common and many are rare, as in a real fleet.
KindIndex common_first(Random& random) {
  const std::uint64_t bound = 1 + random.below(kKinds);
  return static_cast<KindIndex>(random.below(bound));
}

// Arrivals after which the mix is to be read again.
std::vector<int> beliefs(MixLearner& learner, int arrivals, const auto& draw) {
  std::vector<int> out;
  for (int i = 1; i <= arrivals; ++i) {
    if (!learner.arrived(draw())) continue;
    static_cast<void>(learner.believe());
    out.push_back(i);
  }
  return out;
}

TEST_CASE("mix: chance is no new mix") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    MixLearner learner;
    const auto early = beliefs(learner, 5000, [&] { return common_first(random); });
    CHECK(early.front() == 30);
    CHECK(beliefs(learner, 40000, [&] { return common_first(random); }).size() <= 2);
  }
}

TEST_CASE("mix: kinds that each come once are no new mix") {
  MixLearner learner;
  KindIndex next = 0;
  beliefs(learner, 3000, [&] { return next++; });
  // Believed anew every thousand, since nothing repeats; never at every look.
  CHECK(beliefs(learner, 10000, [&] { return next++; }).size() <= 12);
}

TEST_CASE("mix: most of what came before it turned is forgotten within a thousand arrivals") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    MixLearner learner;
    beliefs(learner, 20000, [&] { return common_first(random); });
    const auto turned = [&] {  // A quarter of all becomes the last kind, which was the rarest.
      return random.below(4) == 0 ? KindIndex{kKinds - 1} : common_first(random);
    };
    beliefs(learner, 1000, turned);
    CHECK(learner.believed()[kKinds - 1] > 0.12);
    beliefs(learner, 3000, turned);
    CHECK(learner.believed()[kKinds - 1] > 0.16);
    CHECK(learner.believed()[kKinds - 1] < 0.3);
  }
}

}  // namespace
}  // namespace tranche::policy
