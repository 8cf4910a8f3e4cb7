// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages between broker, jobs and agent: fixed structs on a SOCK_SEQPACKET socket of the same machine.
#include <cstdint>

#include "guard/process_identity.hpp"
#include "guard/region.hpp"

namespace tranche::guard {

inline constexpr std::uint32_t kWireMagic = 0x31425254;  // "TRB1"

enum class Ask : std::uint32_t {
  kJoin = 1,          // A job's process, on its tenant's socket. Answer carries control, ledger, bell.
  kCreateTenant = 2,  // Agent, on the broker's own socket. Answer carries control, ledger.
  kSetLimits = 3,     //
  kRemoveTenant = 4,  //
  kScrubbed = 5,      // The agent zeroed the device: no more zeroing on allocation.
  kList = 6,          // One answer for each tenant with its regions (read-only), then one without.
  kStop = 7,          // End the broker when no tenant is left.
  kProcesses = 8,     // One answer for each process of a tenant with its pid, then one without.
  kPark = 9,          // The memory of `pid` is out of the device (a checkpoint): its account is empty.
  kUnpark = 10,       // It is about to go back: what it held is charged again, or refused.
};

struct DeviceLimits {
  std::uint64_t vram_bytes = 0;  // Zero: not part of the slice.
  std::uint32_t share = kShareWhole;
  ShareMode mode = ShareMode::kUnlimited;
  std::uint32_t priority = 0;
  std::uint32_t paused = 0;
  std::uint32_t physical = 0;     // Which device of the machine this is; tenants meet where this is equal.
  std::uint32_t context_mib = 0;  // What a context takes at most; zero: the first one will tell.
  char uuid[40] = {};
};

struct TenantLimits {
  std::uint64_t warn_at = 0;  // CLOCK_MONOTONIC ns; zero: never.
  std::uint64_t end_at = 0;
  std::uint32_t device_count = 0;
  std::uint32_t stop = kKeepRunning;
  DeviceLimits devices[kDevicesMax] = {};
};

struct Request {
  std::uint32_t magic = kWireMagic;
  std::uint32_t version = kLayoutVersion;
  Ask ask = Ask::kJoin;
  std::uint32_t reserved = 0;
  ProcessIdentity process;           // kJoin
  char tenant[kTenantNameMax] = {};  // All but kJoin.
  char socket_path[108] = {};        // kCreateTenant: where the tenant's jobs will connect.
  std::uint32_t socket_mode = 0600;  //
  TenantLimits limits;               // kCreateTenant, kSetLimits
  std::uint32_t pid = 0;             // kPark, kUnpark: as the broker's PID namespace knows it.
};

enum class Answer : std::uint32_t {
  kDone = 0,
  kRefused = 1,
  kUnknownTenant = 2,
  kExists = 3,
  kBadVersion = 4
};

struct Reply {
  std::uint32_t magic = kWireMagic;
  Answer answer = Answer::kRefused;
  std::uint32_t processes = 0;  // kList
  std::uint32_t pid = 0;        // kProcesses; zero after the last.
  std::uint32_t parked = 0;     // kProcesses: its memory is out of the device.
  std::uint32_t reserved = 0;
  char tenant[kTenantNameMax] = {};
  TenantLimits limits;  // kList
};

inline constexpr std::uint32_t kFdsMax = 3;

// Both return false when the peer is gone or the message is not whole. Unused descriptors are -1.
bool send_message(int socket, const void* data, std::uint32_t bytes, const int* fds, std::uint32_t fd_count);
bool receive_message(int socket, void* data, std::uint32_t bytes, int* fds, std::uint32_t fd_count);
// Connected SOCK_SEQPACKET socket with a receive time-out of five seconds, or -1.
int connect_to(const char* path);

// Region memory. Sizes are sealed; a control region is sealed against later writable mappings too.
int create_region(const char* name, std::uint64_t bytes);
void seal_control(int fd);
void* map_region(int fd, std::uint64_t bytes, bool writable);

}  // namespace tranche::guard
