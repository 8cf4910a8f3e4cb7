// SPDX-License-Identifier: Apache-2.0
#include "journal/chain.hpp"

#include <sodium.h>

#include "base/check.hpp"
#include "journal/signing_key.hpp"

namespace tranche::journal {
namespace {

static_assert(sizeof(Hash) == crypto_generichash_blake2b_BYTES);
static_assert(sizeof(PublicKey) == crypto_sign_PUBLICKEYBYTES && sizeof(Signature) == crypto_sign_BYTES);

// Picks the fastest code for this processor; without it libsodium falls back to portable loops.
void ready_sodium() {
  static const int outcome = sodium_init();
  TRANCHE_CHECK(outcome >= 0);
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::array<unsigned char, 8> little_endian(std::uint64_t value) {
  std::array<unsigned char, 8> bytes{};
  for (auto& byte : bytes) {
    byte = static_cast<unsigned char>(value & 0xFF);
    value >>= 8;
  }
  return bytes;
}

std::uint64_t from_little_endian(const unsigned char* bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

Hash chain_hash(const Hash& previous, std::uint64_t sequence, std::string_view body) {
  ready_sodium();
  const auto number = little_endian(sequence);
  crypto_generichash_blake2b_state state;
  Hash hash{};
  crypto_generichash_blake2b_init(&state, nullptr, 0, hash.size());
  crypto_generichash_blake2b_update(&state, previous.data(), previous.size());
  crypto_generichash_blake2b_update(&state, number.data(), number.size());
  crypto_generichash_blake2b_update(&state, bytes_of(body), body.size());
  crypto_generichash_blake2b_final(&state, hash.data(), hash.size());
  return hash;
}

Hash hash_of(std::string_view bytes) {
  ready_sodium();
  Hash hash{};
  crypto_generichash_blake2b(hash.data(), hash.size(), bytes_of(bytes), bytes.size(), nullptr, 0);
  return hash;
}

namespace {

// The leading text keeps a signature from ever meaning anything else.
std::string statement_of(std::string text, std::uint64_t from, const Checkpoint& checkpoint) {
  const auto at = static_cast<std::uint64_t>(checkpoint.at.time_since_epoch().count());
  for (const std::uint64_t number : {from, checkpoint.sequence, at}) {
    const auto bytes = little_endian(number);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return text.append(reinterpret_cast<const char*>(checkpoint.head.data()), checkpoint.head.size());
}

bool is_signature_of(const Signature& signature, const std::string& statement, const PublicKey& key) {
  ready_sodium();
  return crypto_sign_verify_detached(signature.data(), bytes_of(statement), statement.size(), key.data()) ==
         0;
}

}  // namespace

std::string checkpoint_statement(const Checkpoint& checkpoint) {
  return statement_of("tranche journal checkpoint 1\n", 1, checkpoint);
}

std::string seal_statement(const Checkpoint& seal, std::uint64_t from) {
  return statement_of("tranche journal export 1\n", from, seal);
}

bool signed_by(const Checkpoint& checkpoint, const PublicKey& key) {
  return is_signature_of(checkpoint.signature, checkpoint_statement(checkpoint), key);
}

bool sealed_by(const Checkpoint& seal, std::uint64_t from, const PublicKey& key) {
  return is_signature_of(seal.signature, seal_statement(seal, from), key);
}

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  std::string text(size * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes, size);
  text.pop_back();
  return text;
}

bool from_hex(std::string_view hex, unsigned char* bytes, std::size_t size) {
  if (hex.size() != size * 2) return false;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < size; ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return true;
}

}  // namespace tranche::journal
