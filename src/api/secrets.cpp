// SPDX-License-Identifier: Apache-2.0
#include "api/secrets.hpp"

#include <array>
#include <sodium.h>
#include <stdexcept>

namespace tranche::api {

std::string new_token_secret() {
  std::array<unsigned char, 32> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::array<char, sodium_base64_ENCODED_LEN(32, sodium_base64_VARIANT_URLSAFE_NO_PADDING)> text{};
  sodium_bin2base64(
      text.data(), text.size(), bytes.data(), bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  return std::string("trn_") + text.data();
}

std::string hash_password(std::string_view password) {
  std::array<char, crypto_pwhash_STRBYTES> hash{};
  if (crypto_pwhash_str(hash.data(),
                        password.data(),
                        password.size(),
                        crypto_pwhash_OPSLIMIT_INTERACTIVE,
                        crypto_pwhash_MEMLIMIT_INTERACTIVE) != 0) {
    throw std::runtime_error("not enough memory to hash a password");
  }
  return hash.data();
}

bool password_matches(std::string_view hash, std::string_view password) {
  return crypto_pwhash_str_verify(std::string(hash).c_str(), password.data(), password.size()) == 0;
}

void pretend_to_check(std::string_view password) {
  static const std::string kNobody = hash_password("nobody");
  static_cast<void>(password_matches(kNobody, password));
}

}  // namespace tranche::api
