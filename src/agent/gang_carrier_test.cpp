// SPDX-License-Identifier: Apache-2.0
// What members of a gang say to each other: only they can, only for themselves, and only to whom they mean.
#include "agent/gang_carrier.hpp"

#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace tranche::agent {
namespace {

const std::string kKey(64, 'k');

// An IPv4 header without more.
std::string packet(unsigned char from, unsigned char to) {
  std::string out(20, '\0');
  out[0] = 0x45;
  const unsigned char ends[8] = {10, 117, 0, from, 10, 117, 0, to};
  for (std::size_t i = 0; i < sizeof ends; ++i) out[12 + i] = static_cast<char>(ends[i]);
  return out;
}

TEST_CASE("gang: what one member seals for another, that one opens, and nobody else") {
  GangSeal first(kKey, 0, 1), second(kKey, 1, 1), third(kKey, 2, 1), stranger(std::string(64, 'x'), 1, 1);
  const std::string sealed = first.seal("hello", 1);
  const auto opened = second.open(sealed);
  REQUIRE(opened);
  CHECK(opened->from == 0);
  CHECK(opened->packet == "hello");
  CHECK_FALSE(third.open(sealed));
  CHECK_FALSE(stranger.open(sealed));
  CHECK(sealed.find("hello") == std::string::npos);
  CHECK(first.seal("hello", 1) != sealed);  // Never the same twice.
}

TEST_CASE("gang: a datagram that was changed, cut or is said to be another's opens nothing") {
  GangSeal first(kKey, 0, 1), second(kKey, 1, 1);
  const std::string sealed = first.seal(std::string(100, 'a'), 1);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(second.open(changed));
  }
  for (std::size_t length = 0; length < sealed.size(); ++length)
    CHECK_FALSE(second.open(std::string_view(sealed).substr(0, length)));
}

TEST_CASE("gang: a datagram that comes again is dropped, and one that was overtaken is not") {
  GangSeal first(kKey, 0, 10), third(kKey, 2, 10), second(kKey, 1, 1);
  std::vector<std::string> said;
  for (int i = 0; i < 5000; ++i) said.push_back(first.seal(std::to_string(i), 1));
  CHECK(second.open(said[0]));
  CHECK_FALSE(second.open(said[0]));
  CHECK(second.open(said[2]));
  CHECK(second.open(said[1]));  // Overtaken on its way.
  CHECK_FALSE(second.open(said[1]));
  CHECK(second.open(third.seal("of another", 1)));  // Senders are counted each by itself.
  CHECK(second.open(said[4000]));
  CHECK_FALSE(second.open(said[10]));  // Too old to be told from one that was here.
  CHECK(second.open(said[3999]));
  CHECK(second.open(said[2500]));
  for (const int again : {0, 1, 2, 2500, 3999, 4000})
    CHECK_FALSE(second.open(said[static_cast<std::size_t>(again)]));
}

TEST_CASE("gang: what an earlier carrier of a member sent counts for nothing once a later one has spoken") {
  GangSeal setup(kKey, 0, 10), run(kKey, 0, 20), second(kKey, 1, 1);
  const std::string kept = setup.seal("kept back", 1), heard = setup.seal("heard", 1);
  CHECK(second.open(heard));
  CHECK(second.open(run.seal("later", 1)));
  CHECK_FALSE(second.open(kept));
  CHECK_FALSE(second.open(heard));
  GangSeal twin(kKey, 0, 20);  // Begun at the same instant: cannot be told apart, and is not believed.
  CHECK_FALSE(second.open(twin.seal("twin", 1)));
}

TEST_CASE("gang: ranks are read from addresses of the gang, and from no other") {
  CHECK(gang_rank(packet(1, 2), PacketEnd::kSender) == 0U);
  CHECK(gang_rank(packet(1, 2), PacketEnd::kReceiver) == 1U);
  CHECK_FALSE(gang_rank(packet(0, 2), PacketEnd::kSender));
  CHECK_FALSE(gang_rank(packet(1, 2).substr(0, 19), PacketEnd::kSender));
  std::string elsewhere = packet(1, 2);
  elsewhere[17] = 118;
  CHECK_FALSE(gang_rank(elsewhere, PacketEnd::kReceiver));
  std::string six = packet(1, 2);
  six[0] = 0x60;
  CHECK_FALSE(gang_rank(six, PacketEnd::kSender));
  CHECK(gang_address(0) == "10.117.0.1");
  CHECK(gang_address(300) == "10.117.1.45");
}

TEST_CASE("gang: without a key nothing is said") {
  CHECK_THROWS(GangSeal("", 0, 1));
  CHECK_THROWS(GangSeal("short", 0, 1));
}

}  // namespace
}  // namespace tranche::agent
