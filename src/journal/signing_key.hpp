// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Ed25519 key that signs checkpoints. It lives in `keys/` beside the database, never in it.
#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "journal/chain.hpp"

namespace tranche::journal {

// What is signed, byte for byte.
[[nodiscard]] std::string checkpoint_statement(const Checkpoint& checkpoint);
[[nodiscard]] std::string seal_statement(const Checkpoint& seal, std::uint64_t from);
[[nodiscard]] std::array<unsigned char, 8> little_endian(std::uint64_t value);
[[nodiscard]] std::uint64_t from_little_endian(const unsigned char* bytes);

class SigningKey {
 public:
  // Reads keys/journal.key; throws Unusable when others may read it or it is damaged. Empty when there is
  // none.
  [[nodiscard]] static std::optional<SigningKey> load(const std::filesystem::path& folder);
  // Makes the key (mode 0600) and keys/journal.pub. Both are durable on return.
  [[nodiscard]] static SigningKey create(const std::filesystem::path& folder);

  SigningKey(const SigningKey&) = default;
  SigningKey& operator=(const SigningKey&) = default;
  ~SigningKey();

  void sign(Checkpoint& checkpoint) const;
  void seal(Checkpoint& seal, std::uint64_t from) const;
  [[nodiscard]] const PublicKey& public_key() const { return public_; }

 private:
  [[nodiscard]] Signature signature_of(const std::string& statement) const;
  explicit SigningKey(const std::array<unsigned char, 32>& seed);

  std::array<unsigned char, 64> secret_{};
  PublicKey public_{};
};

// keys/journal.pub, for verifiers.
[[nodiscard]] std::optional<PublicKey> load_public_key(const std::filesystem::path& folder);

}  // namespace tranche::journal
