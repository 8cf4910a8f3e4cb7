// SPDX-License-Identifier: Apache-2.0
#pragma once
// What agent and supervisor say to each other: fixed structs in datagrams of the same machine. A lost one
// costs nothing but time, because the state itself is on the lease's page.
#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/descriptor.hpp"

namespace tranche::agent {

enum class OrderKind : std::uint32_t {
  kStop = 1,
  kKill = 2,
  kPause = 3,
  kResume = 4,
  kSession = 5,
  kResize = 6
};

struct ShimOrder {  // To the supervisor, at `shim.sock` of the lease's folder.
  OrderKind kind = OrderKind::kStop;
  std::uint32_t reason = 0;  // wire::EndReason
  std::uint64_t grace_ns = 0;
  // kSession carries descriptors: the command (NUL-separated), then its input, output and error. One more
  // bit: the three are one terminal.
  std::uint64_t session = 0;
  std::uint32_t terminal = 0;
  std::uint32_t spare = 0;
};

enum class NoteKind : std::uint32_t { kPhase = 1, kOutput = 2, kSessionEnd = 3 };

struct ShimNote {  // To the agent.
  NoteKind kind = NoteKind::kPhase;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::uint32_t spare = 0;
  std::uint64_t lease = 0;
  std::uint64_t session = 0;
};

// A datagram socket that can send, and one that also hears what is sent to folder/name; paths of any length.
[[nodiscard]] Descriptor open_datagrams();
bool name_datagrams(const Descriptor& socket, const std::string& folder, const char* name);
// Both. Invalid when it cannot be.
[[nodiscard]] Descriptor bind_datagrams(const std::string& folder, const char* name);
// Sends without waiting. False: nobody listens there, or it is full.
bool send_datagram(int from,
                   const std::string& folder,
                   const char* name,
                   const void* data,
                   std::size_t bytes,
                   const int* descriptors = nullptr,
                   std::size_t count = 0);
// False: nothing is waiting, or it was not of that size. Missing descriptors are -1.
bool receive_datagram(
    int socket, void* data, std::size_t bytes, int* descriptors = nullptr, std::size_t count = 0);

inline constexpr const char* kShimSocket = "shim.sock";
inline constexpr const char* kAgentSocket = "agent.sock";

}  // namespace tranche::agent
