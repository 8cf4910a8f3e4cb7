// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens: 256 random bits that speak for a party. Only their hash ever reaches the engine.
#include <array>
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/role.hpp"

namespace tranche::engine {

using wire::Scope;

using TokenHash = std::array<std::uint8_t, 32>;

struct Token {
  TokenId id{};
  PartyId party{};
  std::string label{};
  Scope scope = Scope::kAdmin;
  TokenHash hash{};
  Instant created{};
  Instant expires{};  // Zero: never.
  bool revoked = false;
};
BOOST_DESCRIBE_STRUCT(Token, (), (id, party, label, scope, hash, created, expires, revoked))

struct IssueToken {
  PartyId party{};
  std::string label{};
  Scope scope = Scope::kAdmin;
  TokenHash hash{};
  Instant expires{};
};
struct OpenSession {  // The edge has checked the user's password.
  PartyId user{};
  TokenHash hash{};
  Instant expires{};
};
struct TokenIssued {
  TokenId id{};
  PartyId party{};
  std::string label{};
  Scope scope = Scope::kAdmin;
  TokenHash hash{};
  Instant expires{};
};
BOOST_DESCRIBE_STRUCT(TokenIssued, (), (id, party, label, scope, hash, expires))

struct RevokeToken {
  TokenId id{};
};
struct TokenRevoked {
  TokenId id{};
  PartyId party{};
};
BOOST_DESCRIBE_STRUCT(TokenRevoked, (), (id, party))

}  // namespace tranche::engine
