// SPDX-License-Identifier: Apache-2.0
#pragma once
// A service: a job that answers requests, as many copies of it as are needed, behind one address.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/job_spec.hpp"

namespace tranche::wire {

struct ReplicaBounds {
  std::uint32_t min = 1;  // Zero: none while nobody asks.
  std::uint32_t max = 1;
  bool operator==(const ReplicaBounds&) const = default;
};
BOOST_DESCRIBE_STRUCT(ReplicaBounds, (), (min, max))

struct ServiceVersion {
  std::string name{};
  std::uint32_t weight = 1;  // Its part of the requests, against the others'. Zero: none.
  JobSpec job{};
  bool operator==(const ServiceVersion&) const = default;
};
BOOST_DESCRIBE_STRUCT(ServiceVersion, (), (name, weight, job))

enum class ScaleBy : std::uint8_t { kConcurrency, kQueueDelay };
BOOST_DESCRIBE_ENUM(ScaleBy, kConcurrency, kQueueDelay)

struct ServiceScale {
  ScaleBy by = ScaleBy::kConcurrency;
  std::optional<Duration> target{};  // Of the delay.
  bool operator==(const ServiceScale&) const = default;
};
BOOST_DESCRIBE_STRUCT(ServiceScale, (), (by, target))

struct ServiceObjective {
  Duration p99{};
  bool operator==(const ServiceObjective&) const = default;
};
BOOST_DESCRIBE_STRUCT(ServiceObjective, (), (p99))

// Whose turn it is among tenants that wait for the same service.
enum class ServiceFairness : std::uint8_t { kRequests, kTokens };
BOOST_DESCRIBE_ENUM(ServiceFairness, kRequests, kTokens)

struct ServiceSpec {
  std::string name{};
  ReplicaBounds replicas{};
  std::uint32_t concurrency = 8;  // Requests at once that a replica is good for.
  std::uint32_t queue = 128;      // Requests that may wait for a replica.
  Duration timeout = std::chrono::seconds(60);
  Duration idle = std::chrono::minutes(5);           // Then the last replica goes, where the least is zero.
  Duration start_timeout = std::chrono::minutes(5);  // To become ready.
  std::string ready = "/";
  std::uint32_t requests_per_second = 0;  // For each tenant that calls; zero: no limit.
  bool open = false;                      // Anybody may call it, without a token.
  std::vector<ServiceVersion> versions{};
  std::optional<JobSpec> job{};  // Short for one version.
  ServiceScale scale{};
  std::optional<ServiceObjective> objective{};
  bool personal = false;                // Only its owner may call it.
  bool keep_path = false;               // Replicas are asked for /TENANT/SERVICE/..., as callers ask.
  std::vector<std::string> callers{};   // Other tenants that may call it.
  std::uint64_t tokens_per_minute = 0;  // For each tenant that calls; zero: no limit.
  ServiceFairness fair = ServiceFairness::kRequests;
  Duration drain = std::chrono::minutes(5);  // For what a replica that goes has begun.
  bool operator==(const ServiceSpec&) const = default;
};
BOOST_DESCRIBE_STRUCT(ServiceSpec,
                      (),
                      (name,
                       replicas,
                       concurrency,
                       queue,
                       timeout,
                       idle,
                       start_timeout,
                       ready,
                       requests_per_second,
                       open,
                       versions,
                       job,
                       scale,
                       objective,
                       personal,
                       keep_path,
                       callers,
                       tokens_per_minute,
                       fair,
                       drain))

template <>
struct Fields<ReplicaBounds> {
  static constexpr std::string_view kAbout = "How many copies there may be.";
};
template <>
struct Fields<ServiceScale> {
  static constexpr std::string_view kAbout = "What makes another replica.";
  static constexpr std::array kDocs{
      FieldDoc{
          "by",
          "concurrency: more requests than the replicas are good for. queue_delay: requests wait too long."},
      FieldDoc{"target", "With queue_delay: how long a request may wait for a replica."},
  };
};
template <>
struct Fields<ServiceObjective> {
  static constexpr std::string_view kAbout =
      "How soon requests shall be answered; missed, it makes another replica.";
  static constexpr std::array kRequired{std::string_view("p99")};
  static constexpr std::array kDocs{
      FieldDoc{"p99", "99 of 100 requests have the first byte of their answer within this."},
  };
};
template <>
struct Fields<ServiceVersion> {
  static constexpr std::string_view kAbout = "One version of a service: a job that listens on its port.";
  static constexpr std::array kRequired{std::string_view("job")};
};
template <>
struct Fields<ServiceSpec> {
  static constexpr std::string_view kName = "Service";
  static constexpr std::string_view kAbout = "A service for Tranche: service.yaml.";
  static constexpr std::array kRequired{std::string_view("name")};
  static constexpr std::array kDocs{
      FieldDoc{"concurrency", "Requests at once that a replica is good for; more make another replica."},
      FieldDoc{"queue", "Requests that may wait for a replica; more are turned away with 503."},
      FieldDoc{"timeout", "Longest a request may take before its first byte."},
      FieldDoc{"idle", "Without a request for so long, a service whose least is zero has no replica."},
      FieldDoc{"start_timeout", "A replica that runs for so long and is not ready is replaced."},
      FieldDoc{"ready", "Path that answers 2xx once a replica can serve."},
      FieldDoc{"requests_per_second", "For each tenant that calls; 0: no limit."},
      FieldDoc{"open", "Anybody who reaches the gateway may call it, without a token."},
      FieldDoc{"versions", "Several, with weights; or one as `job`."},
      FieldDoc{"scale", "What makes another replica: concurrency, or how long requests wait."},
      FieldDoc{"personal", "Only its owner may call it, with a token of his own; browsers sign in with it."},
      FieldDoc{"keep_path", "Replicas see /TENANT/SERVICE/ in front of what is asked for."},
      FieldDoc{"objective", "A latency to keep: measured, shown, and a reason for another replica."},
      FieldDoc{"callers", "Other tenants whose tokens may call it; each has limits and a queue of its own."},
      FieldDoc{"tokens_per_minute",
               "For each tenant that calls, by the usage its answers tell; 0: no limit."},
      FieldDoc{"drain", "Longest that a replica which is replaced goes on with what it has begun."},
      FieldDoc{"fair", "Tenants that wait take turns by requests, or so that each gets as many tokens."},
  };
  static std::optional<Problem> check(const ServiceSpec& service);
};

// `job` becomes a version like any other, and versions without a name get one.
void unfold(ServiceSpec& service);

// service.yaml, or JSON.
Result<ServiceSpec, Problem> parse_service_file(std::string_view text);

enum class ReplicaState : std::uint8_t { kWaiting, kStarting, kReady, kDraining, kFailing };
BOOST_DESCRIBE_ENUM(ReplicaState, kWaiting, kStarting, kReady, kDraining, kFailing)

struct ReplicaView {
  JobId job{};
  std::string version{};
  ReplicaState state = ReplicaState::kWaiting;
  std::uint32_t active = 0;  // Requests it answers now.
  std::string address{};
};
BOOST_DESCRIBE_STRUCT(ReplicaView, (), (job, version, state, active, address))

// Measured by the gateway in the last minute, from the arrival of a request to the first byte of its answer.
struct ServiceLatency {
  std::uint64_t requests = 0;
  Duration p50{};
  Duration p99{};
  Duration waited{};  // Longest wait for a replica in the last seconds.
  std::optional<Duration> objective{};
  std::optional<std::uint32_t> attained_per_mille{};  // Of the requests, within the objective.
};
BOOST_DESCRIBE_STRUCT(ServiceLatency, (), (requests, p50, p99, waited, objective, attained_per_mille))

struct ServiceView {
  std::string name{};
  std::string owner{};  // Path.
  std::string url{};
  std::uint32_t replicas = 0;
  std::uint32_t ready = 0;
  std::uint32_t queued = 0;
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;
  std::uint64_t tokens_in = 0;
  std::uint64_t tokens_out = 0;
  std::string status{};
  std::uint64_t version = 0;
  std::vector<ReplicaView> copies{};
  std::optional<ServiceLatency> latency{};  // While there are requests.
  std::string origin{};                     // An address that is a browser origin of its own; empty: none.
};
BOOST_DESCRIBE_STRUCT(ServiceView,
                      (),
                      (name,
                       owner,
                       url,
                       replicas,
                       ready,
                       queued,
                       requests,
                       failed,
                       tokens_in,
                       tokens_out,
                       status,
                       version,
                       copies,
                       latency,
                       origin))

struct ServiceList {
  std::vector<ServiceView> items{};
};
BOOST_DESCRIBE_STRUCT(ServiceList, (), (items))

}  // namespace tranche::wire
