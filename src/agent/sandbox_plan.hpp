// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything a supervisor needs to run one lease, without asking anybody: it goes on when the agent is gone.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/codec.hpp"
#include "wire/text_map.hpp"

namespace tranche::agent {

enum class BindKind : std::uint8_t { kReadOnly, kWritable, kDevice };
BOOST_DESCRIBE_ENUM(BindKind, kReadOnly, kWritable, kDevice)

// What of a network the job sees: its own loopback alone; beside it a way out that leads to nobody else's
// job; the node's; beside its loopback the other members of its gang.
enum class NetworkKind : std::uint8_t { kNone, kPrivate, kNode, kGang };
BOOST_DESCRIBE_ENUM(NetworkKind, kNone, kPrivate, kNode, kGang)

struct GangMember {  // Where its node hears for it.
  std::string host{};
  std::uint16_t port = 0;
  bool operator==(const GangMember&) const = default;
};
BOOST_DESCRIBE_STRUCT(GangMember, (), (host, port))

struct GangPlace {
  std::string key{};
  std::uint32_t rank = 0;
  std::vector<GangMember> members{};  // By rank.
  bool operator==(const GangPlace&) const = default;
};
BOOST_DESCRIBE_STRUCT(GangPlace, (), (key, rank, members))

struct Bind {
  std::string source{};
  std::string target{};
  BindKind kind = BindKind::kReadOnly;
  bool operator==(const Bind&) const = default;
};
BOOST_DESCRIBE_STRUCT(Bind, (), (source, target, kind))

struct VolumeWatch {  // A folder of the node that may not grow beyond its quota.
  std::string folder{};
  std::string inside{};
  std::uint64_t bytes = 0;
  bool operator==(const VolumeWatch&) const = default;
};
BOOST_DESCRIBE_STRUCT(VolumeWatch, (), (folder, inside, bytes))

struct SandboxPlan {
  LeaseId lease{};
  std::string folder{};        // Of the lease, on the node.
  std::string agent_socket{};  // Where notes to the agent go.
  std::string setup{};         // Shell text; empty: none.
  std::string run{};
  wire::TextMap environment{};
  std::string rootfs{};                // A folder with another system; empty: the node's own, read-only.
  std::string directory = "/work";     // Where steps begin.
  std::vector<Bind> binds{};           // Beside work and tmp.
  std::vector<std::string> devices{};  // "c 195:0"
  std::uint32_t uid = 0;               // On the node; zero: the agent's own.
  NetworkKind network = NetworkKind::kNone;
  std::vector<std::string> networks_allowed{};  // Private ones that kPrivate leads to all the same.
  std::uint32_t cpu_milli = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t processes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t log_bytes = 0;  // Of each stream.
  Duration time_limit{};
  std::int32_t checkpoint_signal = 0;  // Zero: the job knows none.
  Duration checkpoint_grace{};
  std::vector<VolumeWatch> volumes{};
  GangPlace gang{};
  PartyId tenant{};
  std::uint32_t binds_shared = 0;  // So many of the first are the same for every job of the node.
  bool operator==(const SandboxPlan&) const = default;
};
BOOST_DESCRIBE_STRUCT(SandboxPlan,
                      (),
                      (lease,
                       folder,
                       agent_socket,
                       setup,
                       run,
                       environment,
                       rootfs,
                       directory,
                       binds,
                       devices,
                       uid,
                       network,
                       networks_allowed,
                       cpu_milli,
                       memory_bytes,
                       processes,
                       disk_bytes,
                       files,
                       log_bytes,
                       time_limit,
                       checkpoint_signal,
                       checkpoint_grace,
                       volumes,
                       gang,
                       tenant,
                       binds_shared))

}  // namespace tranche::agent
