// SPDX-License-Identifier: Apache-2.0
#pragma once
// Services: what somebody wants answered, and the jobs that are its replicas. How many there should be is
// measured at the gateway; that there are never more than the bounds, and who pays, is decided here.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/ask.hpp"

namespace tranche::engine {

struct ServiceKey {
  PartyId tenant{};
  std::string name{};
  auto operator<=>(const ServiceKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(ServiceKey, (), (tenant, name))

struct ServiceShape {  // One version, as far as the engine needs it.
  std::string name{};
  wire::Ask ask{};
  std::string spec{};  // The job as canonical JSON.
};
BOOST_DESCRIBE_STRUCT(ServiceShape, (), (name, ask, spec))

struct Replica {
  JobId job{};
  std::string version{};
  std::uint64_t revision = 0;  // Of the service when it was added: an older one is to be replaced.
  bool retiring = false;
};
BOOST_DESCRIBE_STRUCT(Replica, (), (job, version, revision, retiring))

struct ServiceUse {
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;
  std::uint64_t tokens_in = 0;
  std::uint64_t tokens_out = 0;
  std::uint64_t judged = 0;   // Against the service's latency objective.
  std::uint64_t in_time = 0;  // Of those.
};
BOOST_DESCRIBE_STRUCT(ServiceUse, (), (requests, failed, tokens_in, tokens_out, judged, in_time))

// What its objective came to in one hour, and what its replicas were charged.
struct ServiceHour {
  Instant from{};
  std::uint64_t judged = 0;
  std::uint64_t in_time = 0;
  Money charged{};
  JobId job{};  // The last one that was charged.
};
BOOST_DESCRIBE_STRUCT(ServiceHour, (), (from, judged, in_time, charged, job))

struct Service {
  ServiceKey key{};
  PartyId owner{};
  std::uint64_t revision = 0;
  std::uint32_t replicas_max = 1;
  std::string spec{};  // service.yaml as canonical JSON.
  std::vector<ServiceShape> versions{};
  std::vector<Replica> replicas{};
  ServiceUse use{};
  ServiceHour hour{};
};
BOOST_DESCRIBE_STRUCT(Service, (), (key, owner, revision, replicas_max, spec, versions, replicas, use, hour))

struct SetService {
  PartyId owner{};  // Zero: the actor.
  std::string name{};
  std::uint32_t replicas_max = 1;
  std::string spec{};
  std::vector<ServiceShape> versions{};
};
struct ServiceSet {
  ServiceKey key{};
  PartyId owner{};
  std::uint32_t replicas_max = 1;
  std::string spec{};
  std::vector<ServiceShape> versions{};
};
BOOST_DESCRIBE_STRUCT(ServiceSet, (), (key, owner, replicas_max, spec, versions))

struct RemoveService {
  ServiceKey key{};
};
struct ServiceRemoved {
  ServiceKey key{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(ServiceRemoved, (), (key, owner))

struct AddReplica {
  ServiceKey key{};
  std::string version{};
};
struct ReplicaAdded {
  ServiceKey key{};
  PartyId owner{};
  JobId job{};
  std::string version{};
};
BOOST_DESCRIBE_STRUCT(ReplicaAdded, (), (key, owner, job, version))

struct RetireReplica {
  ServiceKey key{};
  JobId job{};
};
struct ReplicaRetired {
  ServiceKey key{};
  PartyId owner{};
  JobId job{};
};
BOOST_DESCRIBE_STRUCT(ReplicaRetired, (), (key, owner, job))

struct CountRequests {
  ServiceKey key{};
  ServiceUse use{};  // Since the last count.
};
struct ServiceUsed {
  ServiceKey key{};
  PartyId owner{};
  ServiceUse use{};
};
BOOST_DESCRIBE_STRUCT(ServiceUsed, (), (key, owner, use))

}  // namespace tranche::engine
