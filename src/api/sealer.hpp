// SPDX-License-Identifier: Apache-2.0
#pragma once
// Seals what tenants entrust to a job (secrets of its environment) before it reaches the journal. The key is
// kept outside the database; a copy of the journal alone opens nothing.
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::api {

class Sealer {
 public:
  using Key = std::array<unsigned char, 32>;
  explicit Sealer(const Key& key) : key_(key) {}

  [[nodiscard]] std::string seal(std::string_view secret) const;  // "sealed:…"
  [[nodiscard]] std::optional<std::string> open(
      std::string_view sealed) const;  // Nothing when it is not of this key.

 private:
  Key key_;
};

}  // namespace tranche::api
