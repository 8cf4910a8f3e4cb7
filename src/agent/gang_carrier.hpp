// SPDX-License-Identifier: Apache-2.0
#pragma once
// Carries packets between the members of a gang, each in a network namespace of its own: what leaves one
// through its tunnel is sealed with the key of this attempt and goes as a datagram to the node of the member
// it is for. Who has no key can neither read nor send; a member can speak only for itself, and reaches
// nobody but members. A datagram that somebody in between sends again, however much later, is dropped.
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/descriptor.hpp"
#include "agent/host_time.hpp"

namespace tranche::agent {

struct GangPlace;

constexpr std::size_t kGangMembersMax = 4096;
constexpr std::size_t kGangKeyBytes = 32;

// What a member sees of another: the address inside, by rank.
[[nodiscard]] std::string gang_address(std::size_t rank);
// Where a node hears for a lease.
[[nodiscard]] std::uint16_t gang_port(std::uint64_t lease);

// Which datagrams of one sender were taken. A member's later carrier (that of its next step) begins anew, and
// what an earlier one sent counts for nothing from then on.
class ReplayWindow {
 public:
  ReplayWindow() = default;
  // False: it was taken before, or is older than what is remembered.
  bool take(std::uint64_t begun, std::uint64_t salt, std::uint64_t count);

 private:
  static constexpr std::size_t kSize = 2048;  // So far may datagrams overtake each other.
  ReplayWindow(std::uint64_t begun, std::uint64_t salt) : begun_(begun), salt_(salt) {}
  std::uint64_t begun_ = 0, salt_ = 0, newest_ = 0;
  std::bitset<kSize> seen_;
};

// Sealed and opened packets; without state but counters, so that it can be tested alone.
class GangSeal {
 public:
  // `begun`: later than of any seal of this member before. Throws std::runtime_error: not a key.
  GangSeal(const std::string& key, std::uint32_t rank, BootTime begun);
  // For the member of that rank.
  [[nodiscard]] std::string seal(std::string_view packet, std::uint32_t to);
  // Who sent it, and what; nothing: nobody who has the key and may say so, or it was here before.
  struct Opened {
    std::uint32_t from = 0;
    std::string packet{};
  };
  [[nodiscard]] std::optional<Opened> open(std::string_view datagram);

 private:
  std::string key_;
  std::uint32_t rank_;
  std::string beginning_;  // Of every nonce: when it began, and something random. The count follows.
  std::uint64_t count_ = 0;
  std::map<std::uint32_t, ReplayWindow> heard_;
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
