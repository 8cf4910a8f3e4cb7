// SPDX-License-Identifier: Apache-2.0
#pragma once
// Volumes: a tenant's storage on a node or in a pool that several nodes mount, as server and agent speak of
// it.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"

namespace tranche {

struct VolumeId {
  static constexpr std::string_view kIdPrefix = "vol_";
  std::uint64_t value = 0;
  auto operator<=>(const VolumeId&) const = default;
};
inline std::string text(VolumeId id) {
  return id_text(VolumeId::kIdPrefix, id.value);
}

}  // namespace tranche

namespace tranche::wire {

enum class VolumeState : std::uint8_t {
  kReady,
  kCopying,  // A snapshot that is still being filled.
  kWiping,
  kGone,    // Wiped; what is left is the receipt.
  kFailed,  // The copy could not be made; its message says why.
};
BOOST_DESCRIBE_ENUM(VolumeState, kReady, kCopying, kWiping, kGone, kFailed)

enum class VolumeBackend : std::uint8_t {
  kNode,    // On the disk of one node.
  kShared,  // In a folder that every node of a pool mounts.
};
BOOST_DESCRIBE_ENUM(VolumeBackend, kNode, kShared)

// A volume for one lease: the server has found out whose it is; the node finds it by number alone.
struct VolumeGrant {
  VolumeId volume{};
  std::string path{};  // Inside the job.
  bool read_only = false;
  Bytes quota{};
  std::string pool{};  // Empty: on the node itself.
  bool operator==(const VolumeGrant&) const = default;
};
BOOST_DESCRIBE_STRUCT(VolumeGrant, (), (volume, path, read_only, quota, pool))

enum class VolumeWork : std::uint8_t { kCopy, kWipe };
BOOST_DESCRIBE_ENUM(VolumeWork, kCopy, kWipe)

// Given again after every break of the link until its receipt has come; doing it twice does it once.
struct VolumeOrder {
  VolumeId volume{};
  PartyId tenant{};
  VolumeWork work = VolumeWork::kWipe;
  VolumeId source{};   // Of a copy.
  std::string pool{};  // Empty: on the node itself.
  bool operator==(const VolumeOrder&) const = default;
};
BOOST_DESCRIBE_STRUCT(VolumeOrder, (), (volume, tenant, work, source, pool))

struct VolumeReceipt {
  VolumeId volume{};
  VolumeWork work = VolumeWork::kWipe;
  bool done = false;
  Instant at{};
  Duration took{};
  std::uint64_t files = 0;
  Bytes bytes{};         // Overwritten, or copied.
  std::string method{};  // What was done, in words that promise no more than was done.
  std::string message{};
  bool operator==(const VolumeReceipt&) const = default;
};
BOOST_DESCRIBE_STRUCT(VolumeReceipt, (), (volume, work, done, at, took, files, bytes, method, message))

}  // namespace tranche::wire
