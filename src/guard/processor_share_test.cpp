// SPDX-License-Identifier: Apache-2.0
#include "guard/opencl/processor_share.hpp"

#include <doctest/doctest.h>

namespace tranche::guard::opencl {
namespace {

TEST_CASE(
    "processor share: a launch that runs alone took all that was used meanwhile, and nothing from before") {
  ProcessorShare share;
  const std::uint64_t began = share.begins(500);
  CHECK(share.ended(800, began) == 300);
  const std::uint64_t next = share.begins(1000);
  CHECK(share.ended(1050, next) == 50);
}

TEST_CASE("processor share: launches that run at once took together what was used, and no more") {
  ProcessorShare share;
  const std::uint64_t first = share.begins(100);
  const std::uint64_t second = share.begins(300);
  CHECK(share.ended(700, first) == 200 + 200);
  CHECK(share.ended(800, second) == 200 + 100);
}

TEST_CASE("processor share: a thread that read the clock earlier and comes later takes nothing back") {
  ProcessorShare share;
  const std::uint64_t first = share.begins(100);
  const std::uint64_t second = share.begins(400);
  CHECK(share.ended(390, first) == 300);
  CHECK(share.ended(500, second) == 100);
}

}  // namespace
}  // namespace tranche::guard::opencl
