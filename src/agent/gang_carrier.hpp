// SPDX-License-Identifier: Apache-2.0
#pragma once
// Carries packets between the members of a gang, each in a network namespace of its own: what leaves one
// through its tunnel is sealed with the key of this attempt and goes as a datagram to the node of the member
// it is for. Who has no key can neither read nor send; a member can speak only for itself, and reaches
// nobody but members. A datagram that is sent again by somebody in between is delivered again, as IP allows.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/descriptor.hpp"

namespace tranche::agent {

struct GangPlace;

constexpr std::size_t kGangMembersMax = 4096;
constexpr std::size_t kGangKeyBytes = 32;

// What a member sees of another: the address inside, by rank.
[[nodiscard]] std::string gang_address(std::size_t rank);
// Where a node hears for a lease.
[[nodiscard]] std::uint16_t gang_port(std::uint64_t lease);

// Sealed and opened packets; without state but counters, so that it can be tested alone.
class GangSeal {
 public:
  GangSeal(const std::string& key, std::uint32_t rank);  // Throws std::runtime_error: not a key.
  // For the member of that rank.
  [[nodiscard]] std::string seal(std::string_view packet, std::uint32_t to);
  // Who sent it, and what; nothing: nobody who has the key and may say so.
  struct Opened {
    std::uint32_t from = 0;
    std::string packet{};
  };
  [[nodiscard]] std::optional<Opened> open(std::string_view datagram) const;

 private:
  std::string key_;
  std::uint32_t rank_;
  std::string nonce_;  // Random, then a counter.
};

// The rank that an address inside belongs to, of an IPv4 packet's receiver or sender.
enum class PacketEnd : std::uint8_t { kSender, kReceiver };
[[nodiscard]] std::optional<std::uint32_t> gang_rank(std::string_view packet, PacketEnd end);

// The tunnel inside the namespace of process `init`, up and with its address. Throws std::runtime_error.
[[nodiscard]] Descriptor open_gang_tunnel(int init, const char* interface, std::size_t rank);
[[nodiscard]] Descriptor open_gang_socket(std::uint16_t port);
// Until the lifeline closes. Ends the process.
[[noreturn]] void carry_gang(const GangPlace& place, int tunnel, int socket, int lifeline);

}  // namespace tranche::agent
