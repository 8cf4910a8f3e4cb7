// SPDX-License-Identifier: Apache-2.0
#include "guard/lz4_block.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <string>

namespace tranche::guard {
namespace {

std::string unpack(const std::string& block, std::uint64_t room) {
  std::string out(room, '\0');
  const auto* from = reinterpret_cast<const unsigned char*>(block.data());
  out.resize(unpack_lz4(from, block.size(), reinterpret_cast<unsigned char*>(out.data()), room));
  return out;
}

// As the reference implementation (lz4 -1, content only) writes them.
const std::string kLiterals("\x50hello", 6);
const std::string kRepeats(
    "\x1f"
    "a"
    "\x01\x00\x4b\x50"
    "aaaaa",
    11);  // 1 + (15 + 75 + 4) + 5 times "a".

}  // namespace

TEST_CASE("lz4: literals, and matches that repeat themselves") {
  CHECK(unpack(kLiterals, 5) == "hello");
  CHECK(unpack(kRepeats, 100) == std::string(100, 'a'));
  const std::string far(
      "\x60"
      "abcdef"
      "\x06\x00\x10z",
      11);
  CHECK(unpack(far, 100) == "abcdefabcdz");
  const std::string many = std::string("\xf0\xff\x1e", 3) + std::string(300, 'x');
  CHECK(unpack(many, 300) == std::string(300, 'x'));
}

TEST_CASE("lz4: a block that is cut off, or lies, is refused within its bounds") {
  for (std::size_t length = 0; length + 1 < kRepeats.size(); ++length)
    CHECK(unpack(kRepeats.substr(0, length), 100).size() < 100);
  CHECK(unpack(kRepeats, 99).empty());
  CHECK(unpack(kRepeats, 50).empty());
  CHECK(unpack(kLiterals, 4).empty());
  CHECK(unpack(std::string("\x10"
                           "a"
                           "\x02\x00",
                           4),
               100)
            .empty());  // From before the beginning.
  CHECK(unpack(std::string("\x10"
                           "a"
                           "\x00\x00",
                           4),
               100)
            .empty());
}

}  // namespace tranche::guard
