// SPDX-License-Identifier: Apache-2.0
#include "engine/health_matrix.hpp"

#include <doctest/doctest.h>

namespace tranche::engine::health_matrix {
namespace {

TEST_CASE("health: every code of the tables has its action, verdict and bill, however the device is shared") {
  CHECK(forgotten() == std::vector<std::string>{});
  for (const Case& one : cases()) {
    for (const Sharing sharing : kSharings) {
      for (const Phase phase : kPhases) {
        CAPTURE(text(one));
        CAPTURE(static_cast<int>(sharing));
        CAPTURE(static_cast<int>(phase));
        CHECK(Judge(one, sharing, phase).run() == "");
      }
    }
  }
}

}  // namespace
}  // namespace tranche::engine::health_matrix
