// SPDX-License-Identifier: Apache-2.0
#pragma once
// Secrets at the edge: new tokens, and passwords under argon2id. Neither is ever stored or logged in the
// clear.
#include <string>
#include <string_view>

namespace tranche::api {

[[nodiscard]] std::string new_token_secret();  // "trn_" and 256 random bits.
[[nodiscard]] std::string hash_password(
    std::string_view password);  // Slow on purpose: not on a network thread.
[[nodiscard]] bool password_matches(std::string_view hash, std::string_view password);
// Takes as long as a real check, for users that do not exist or have no password.
void pretend_to_check(std::string_view password);

}  // namespace tranche::api
