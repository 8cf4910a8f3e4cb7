// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the shell stamps on every command before the engine sees it; recorded with the events it led to.
#include <boost/describe/class.hpp>
#include <compare>
#include <cstdint>
#include <string>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace tranche {

struct RequestKey {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const RequestKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(RequestKey, (), (high, low))

struct Envelope {
  Instant at{};                 // The only "now" the engine knows. Never goes backwards.
  std::uint64_t seed = 0;       // Source of every random choice this command makes.
  PartyId actor{};              // Zero: the platform itself (ticks, recovery) or a caller without a token.
  TokenId token{};              // The token the actor showed.
  std::string origin{};         // Where the request came from, as the edge saw it: an address, or "local".
  std::string request_id{};     // Ties log lines, answers and audit entries of one request together.
  RequestKey idempotency{};     // Hash of actor, route and the client's key; zero: none given.
  std::uint64_t body_hash = 0;  // Of the request body: the same key with another body is a mistake.
};
BOOST_DESCRIBE_STRUCT(Envelope, (), (at, seed, actor, token, origin, request_id, idempotency, body_hash))

}  // namespace tranche
