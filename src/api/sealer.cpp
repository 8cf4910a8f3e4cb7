// SPDX-License-Identifier: Apache-2.0
#include "api/sealer.hpp"

#include <sodium.h>
#include <vector>

namespace tranche::api {
namespace {

constexpr std::string_view kPrefix = "sealed:";
constexpr std::string_view kDerived = "derived:";
constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

unsigned char* bytes(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}
const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// "derived:NAME" is a key that nobody had to store: it follows from ours and the name, and tells nothing of
// either.
std::string derived(const Sealer::Key& key, std::string_view name) {
  std::string made(crypto_generichash_BYTES, '\0');
  crypto_generichash(bytes(made), made.size(), bytes(name), name.size(), key.data(), key.size());
  std::string hex(made.size() * 2 + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), bytes(made), made.size());
  hex.pop_back();
  return hex;
}

}  // namespace

std::string Sealer::seal(std::string_view secret) const {
  std::string box(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + secret.size(), '\0');
  randombytes_buf(box.data(), crypto_secretbox_NONCEBYTES);
  crypto_secretbox_easy(
      bytes(box) + crypto_secretbox_NONCEBYTES, bytes(secret), secret.size(), bytes(box), key_.data());
  std::string text(sodium_base64_encoded_len(box.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes(box), box.size(), kVariant);
  text.pop_back();  // The terminating zero.
  return std::string(kPrefix) + text;
}

std::optional<std::string> Sealer::open(std::string_view sealed) const {
  if (sealed.starts_with(kDerived)) return derived(key_, sealed);
  if (!sealed.starts_with(kPrefix)) return std::nullopt;
  sealed.remove_prefix(kPrefix.size());
  std::string box(sealed.size(), '\0');
  std::size_t size = 0;
  if (sodium_base642bin(
          bytes(box), box.size(), sealed.data(), sealed.size(), nullptr, &size, nullptr, kVariant) != 0) {
    return std::nullopt;
  }
  constexpr std::size_t kOverhead = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
  if (size < kOverhead) return std::nullopt;
  std::string secret(size - kOverhead, '\0');
  if (crypto_secretbox_open_easy(bytes(secret),
                                 bytes(box) + crypto_secretbox_NONCEBYTES,
                                 size - crypto_secretbox_NONCEBYTES,
                                 bytes(box),
                                 key_.data()) != 0) {
    return std::nullopt;
  }
  return secret;
}

}  // namespace tranche::api
