// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which token a secret belongs to, for the network's threads. The engine's thread keeps it current, so a
// revoked token is unknown from the moment its revocation is answered.
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::server {

struct Bearer {
  TokenId token{};
  PartyId party{};
  Instant expires{};  // Zero: never.
  [[nodiscard]] bool has_expired(Instant at) const { return expires != Instant{} && expires <= at; }
};

class TokenDirectory {
 public:
  [[nodiscard]] std::optional<Bearer> find(std::string_view secret) const;
  void rebuild(const engine::State&);
  void follow(const engine::Event&);

  [[nodiscard]] static engine::TokenHash hash(std::string_view secret);

 private:
  struct FirstBytes {  // A hash is uniform already.
    std::size_t operator()(const engine::TokenHash& hash) const;
  };
  mutable std::mutex mutex_;
  std::unordered_map<engine::TokenHash, Bearer, FirstBytes> by_hash_;
  std::unordered_map<std::uint64_t, engine::TokenHash> by_id_;
};

}  // namespace tranche::server
