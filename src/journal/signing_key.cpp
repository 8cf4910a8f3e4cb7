// SPDX-License-Identifier: Apache-2.0
#include "journal/signing_key.hpp"

#include <sodium.h>
#include <sys/stat.h>

#include "journal/durable_file.hpp"
#include "journal/error.hpp"

namespace tranche::journal {
namespace {

std::filesystem::path secret_file(const std::filesystem::path& folder) {
  return folder / "keys" / "journal.key";
}

std::filesystem::path public_file(const std::filesystem::path& folder) {
  return folder / "keys" / "journal.pub";
}

}  // namespace

SigningKey::SigningKey(const std::array<unsigned char, 32>& seed) {
  crypto_sign_seed_keypair(public_.data(), secret_.data(), seed.data());
}

SigningKey::~SigningKey() {
  sodium_memzero(secret_.data(), secret_.size());
}

std::optional<SigningKey> SigningKey::load(const std::filesystem::path& folder) {
  const auto path = secret_file(folder);
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) return std::nullopt;
  if ((about.st_mode & 077) != 0)
    throw Unusable("others may read " + path.string() + ", the key that signs the journal: chmod 600 it");
  std::string text = read_file(path);
  std::array<unsigned char, 32> seed{};
  if (text.size() != 65 || text.back() != '\n' || !from_hex(std::string_view(text).substr(0, 64), seed))
    throw Unusable(path.string() + " is not a key: restore it from a backup");
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  sodium_memzero(text.data(), text.size());
  return key;
}

SigningKey SigningKey::create(const std::filesystem::path& folder) {
  make_folder(folder / "keys", 0700);
  std::array<unsigned char, 32> seed{};
  static_cast<void>(hash_of(""));  // Readies libsodium.
  randombytes_buf(seed.data(), seed.size());
  const SigningKey key(seed);
  std::string text = to_hex(seed) + "\n";
  write_durably(public_file(folder), {to_hex(key.public_) + "\n"}, 0644);
  write_durably(secret_file(folder), {text}, 0600);
  sodium_memzero(seed.data(), seed.size());
  sodium_memzero(text.data(), text.size());
  return key;
}

void SigningKey::sign(Checkpoint& checkpoint) const {
  checkpoint.signature = signature_of(checkpoint_statement(checkpoint));
}

void SigningKey::seal(Checkpoint& seal, std::uint64_t from) const {
  seal.signature = signature_of(seal_statement(seal, from));
}

Signature SigningKey::signature_of(const std::string& statement) const {
  Signature signature{};
  const auto* bytes = reinterpret_cast<const unsigned char*>(statement.data());
  crypto_sign_detached(signature.data(), nullptr, bytes, statement.size(), secret_.data());
  return signature;
}

std::optional<PublicKey> load_public_key(const std::filesystem::path& folder) {
  const auto path = public_file(folder);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  PublicKey key{};
  if (text.size() != 65 || !from_hex(std::string_view(text).substr(0, 64), key))
    throw Unusable(path.string() + " is not a public key");
  return key;
}

}  // namespace tranche::journal
