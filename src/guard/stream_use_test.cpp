// SPDX-License-Identifier: Apache-2.0
#include "guard/stream_use.hpp"

#include <doctest/doctest.h>

namespace tranche::guard {

constexpr std::uint64_t kNow = 1'000'000'000'000;

TEST_CASE("stream use: one stream, also the null stream, is one") {
  for (const std::uintptr_t stream : {std::uintptr_t{0}, std::uintptr_t{4096}}) {
    StreamUse use{};
    for (int i = 0; i < 3; ++i) use.note(stream, false, kNow + static_cast<std::uint64_t>(i));
    CHECK(!use.several(kNow + 3));
  }
}

TEST_CASE("stream use: several are seen where a thread changes, and where threads differ") {
  StreamUse threads{};
  threads.note(0, false, kNow);
  threads.note(4096, false, kNow + 1);
  CHECK(threads.several(kNow + 2));
  StreamUse alternating{};
  alternating.note(4096, true, kNow);  // What went elsewhere passed unseen.
  CHECK(alternating.several(kNow + 1));
}

TEST_CASE("stream use: a stream for the start of a program is forgotten") {
  StreamUse use{};
  use.note(4096, false, kNow);
  use.note(8192, false, kNow + 1);
  for (std::uint64_t at = kNow + 2; at < kNow + 5'000'000'000; at += 100'000'000) use.note(8192, false, at);
  CHECK(!use.several(kNow + 5'000'000'000));
}

}  // namespace tranche::guard
