// SPDX-License-Identifier: Apache-2.0
#include "server/token_directory.hpp"

#include <cstring>
#include <sodium.h>

namespace tranche::server {

std::size_t TokenDirectory::FirstBytes::operator()(const engine::TokenHash& hash) const {
  std::size_t value = 0;
  std::memcpy(&value, hash.data(), sizeof value);
  return value;
}

engine::TokenHash TokenDirectory::hash(std::string_view secret) {
  engine::TokenHash hash{};
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
  return hash;
}

std::optional<Bearer> TokenDirectory::find(std::string_view secret) const {
  // The table is searched by the hash of the secret: how long that takes tells nothing about any secret.
  const engine::TokenHash key = hash(secret);
  const std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(key);
  if (found == by_hash_.end()) return std::nullopt;
  return found->second;
}

void TokenDirectory::rebuild(const engine::State& state) {
  const std::lock_guard lock(mutex_);
  by_hash_.clear();
  by_id_.clear();
  for (const auto& [id, token] : state.tokens) {
    if (token.revoked) continue;
    by_hash_.emplace(token.hash, Bearer{id, token.party, token.expires});
    by_id_.emplace(id.value, token.hash);
  }
}

void TokenDirectory::follow(const engine::Event& event) {
  if (const auto* issued = std::get_if<engine::TokenIssued>(&event)) {
    const std::lock_guard lock(mutex_);
    by_hash_.emplace(issued->hash, Bearer{issued->id, issued->party, issued->expires});
    by_id_.emplace(issued->id.value, issued->hash);
  } else if (const auto* revoked = std::get_if<engine::TokenRevoked>(&event)) {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(revoked->id.value);
    if (found == by_id_.end()) return;
    by_hash_.erase(found->second);
    by_id_.erase(found);
  }
}

}  // namespace tranche::server
