// SPDX-License-Identifier: Apache-2.0
#pragma once
// Strong identifiers: a JobId is never a PartyId, nor a bare integer by accident.
//
// People see them as a prefix and six or more Crockford base-32 digits (job_00007K): sortable as text, no
// letters that look alike. Zero is never a real object.
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tranche {

enum class PartyKind : std::uint8_t { kPlatform = 1, kTenant, kSubscriber, kUser, kService };

// A node of the tree of who. Its kind is in the low three bits, so that an id alone tells what it names.
struct PartyId {
  std::uint64_t value = 0;
  auto operator<=>(const PartyId&) const = default;
  [[nodiscard]] constexpr PartyKind kind() const { return static_cast<PartyKind>(value & 7U); }
  [[nodiscard]] static constexpr PartyId make(PartyKind kind, std::uint64_t number) {
    return {(number << 3U) | static_cast<std::uint64_t>(kind)};
  }
};
constexpr PartyId kPlatform = PartyId::make(PartyKind::kPlatform, 0);
struct TokenId {
  std::uint64_t value = 0;
  auto operator<=>(const TokenId&) const = default;
};
struct JobId {
  std::uint64_t value = 0;
  auto operator<=>(const JobId&) const = default;
};
struct NodeId {
  std::uint64_t value = 0;
  auto operator<=>(const NodeId&) const = default;
};
struct DeviceId {
  std::uint64_t value = 0;
  auto operator<=>(const DeviceId&) const = default;
};
struct LeaseId {
  std::uint64_t value = 0;
  auto operator<=>(const LeaseId&) const = default;
};
struct ClaimId {
  std::uint64_t value = 0;
  auto operator<=>(const ClaimId&) const = default;
};

std::string id_text(std::string_view prefix, std::uint64_t value);
std::optional<std::uint64_t> parse_id(std::string_view prefix, std::string_view text);

std::string text(PartyId id);  // platform, ten_…, sub_…, usr_…, svc_…
std::optional<PartyId> parse_party_id(std::string_view text);
inline std::string text(JobId id) {
  return id_text("job_", id.value);
}
inline std::string text(TokenId id) {
  return id_text("tok_", id.value);
}
inline std::string text(NodeId id) {
  return id_text("node_", id.value);
}
inline std::string text(DeviceId id) {
  return id_text("gpu_", id.value);
}
inline std::string text(LeaseId id) {
  return id_text("lease_", id.value);
}
inline std::string text(ClaimId id) {
  return id_text("clm_", id.value);
}

}  // namespace tranche
