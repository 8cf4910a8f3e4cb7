// SPDX-License-Identifier: Apache-2.0
#include "base/ids.hpp"

#include <array>

namespace tranche {
namespace {

constexpr std::string_view kDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
constexpr std::size_t kWidth = 6;      // A billion objects before ids grow by a digit.
constexpr std::size_t kWidthMax = 13;  // 64 bits in base 32.

std::optional<std::uint64_t> digit_value(char c) {
  if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (c == 'O') c = '0';
  if (c == 'I' || c == 'L') c = '1';
  const auto at = kDigits.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return at;
}

struct KindPrefix {
  PartyKind kind;
  std::string_view prefix;
};
constexpr std::array kPrefixes{KindPrefix{PartyKind::kTenant, "ten_"},
                               KindPrefix{PartyKind::kSubscriber, "sub_"},
                               KindPrefix{PartyKind::kUser, "usr_"},
                               KindPrefix{PartyKind::kService, "svc_"}};

}  // namespace

std::string text(PartyId id) {
  if (id == kPlatform) return "platform";
  for (const auto& [kind, prefix] : kPrefixes) {
    if (id.kind() == kind) return id_text(prefix, id.value >> 3U);
  }
  return {};
}

std::optional<PartyId> parse_party_id(std::string_view text) {
  if (text == "platform") return kPlatform;
  for (const auto& [kind, prefix] : kPrefixes) {
    if (const auto number = parse_id(prefix, text); number && *number <= UINT64_MAX >> 3U) {
      return PartyId::make(kind, *number);
    }
  }
  return std::nullopt;
}

std::string id_text(std::string_view prefix, std::uint64_t value) {
  std::array<char, kWidthMax> digits{};
  std::size_t used = 0;
  for (; value != 0 || used < kWidth; value >>= 5U) digits[used++] = kDigits[value & 31U];
  std::string out(prefix);
  while (used > 0) out += digits[--used];
  return out;
}

std::optional<std::uint64_t> parse_id(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  if (text.empty() || text.size() > kWidthMax) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    const auto digit = digit_value(c);
    if (!digit || (value >> 59U) != 0) return std::nullopt;
    value = (value << 5U) | *digit;
  }
  return value;
}

}  // namespace tranche
