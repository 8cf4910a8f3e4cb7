// SPDX-License-Identifier: Apache-2.0
#include "wire/service.hpp"

#include <algorithm>
#include <set>

#include "wire/codec_impl.hpp"
#include "wire/yaml_document.hpp"

namespace tranche::wire {
namespace {

constexpr std::uint32_t kReplicasMax = 1000;
constexpr std::size_t kVersionsMax = 16;
constexpr std::size_t kCallersMax = 1000;
constexpr std::uint64_t kTokensMax = 1'000'000'000'000;

std::optional<Problem> wrong(std::string path, std::string message) {
  return Problem{.path = std::move(path), .message = std::move(message), .hint = {}};
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::optional<Problem> check_version(const ServiceVersion& version) {
  if (!version.name.empty() && !is_name(version.name))
    return wrong("versions.name", "takes small letters, digits and dashes");
  if (version.job.port == 0) return wrong("versions.job.port", "must be the port that the job listens on");
  if (version.job.units) return wrong("versions.job.units", "are for jobs that end");
  if (version.job.num_nodes != 1 || version.job.workers.max > 1)
    return wrong("versions.job.num_nodes", "must be 1: replicas are not gangs");
  return std::nullopt;
}

}  // namespace

void unfold(ServiceSpec& service) {
  if (service.job) service.versions.push_back({.name = {}, .weight = 1, .job = std::move(*service.job)});
  service.job.reset();
  for (std::size_t i = 0; i < service.versions.size(); ++i)
    if (service.versions[i].name.empty()) service.versions[i].name = "v" + std::to_string(i + 1);
}

std::optional<Problem> Fields<ServiceSpec>::check(const ServiceSpec& given) {
  ServiceSpec service = given;
  unfold(service);
  if (!is_name(service.name)) return wrong("name", "takes up to 63 small letters, digits and dashes");
  if (service.versions.empty() || service.versions.size() > kVersionsMax)
    return wrong("versions", "must be 1 to 16");
  if (service.replicas.max == 0 || service.replicas.max > kReplicasMax ||
      service.replicas.min > service.replicas.max)
    return wrong("replicas", "must be bounds such as {min: 1, max: 4}, at most 1000");
  if (service.concurrency == 0) return wrong("concurrency", "must be at least 1");
  if (service.timeout <= Duration{} || service.start_timeout <= Duration{} || service.idle < Duration{})
    return wrong("timeout", "and start_timeout must be more than nothing");
  if (service.drain < Duration{}) return wrong("drain", "must be a time such as 5m");
  if (service.personal && service.open) return wrong("personal", "and open exclude each other");
  if (!service.callers.empty() && (service.personal || service.open))
    return wrong("callers", "are for services that are neither personal nor open");
  if (service.callers.size() > kCallersMax) return wrong("callers", "must be at most 1000");
  if (service.tokens_per_minute > kTokensMax) return wrong("tokens_per_minute", "must be at most 10^12");
  if (!service.ready.starts_with('/')) return wrong("ready", "must be a path such as /health");
  const bool by_delay = service.scale.by == ScaleBy::kQueueDelay;
  if (by_delay != service.scale.target.has_value() || (by_delay && *service.scale.target <= Duration{}))
    return wrong("scale", "must be {by: concurrency}, or {by: queue_delay, target: 200ms}");
  if (service.objective && service.objective->p99 <= Duration{})
    return wrong("objective.p99", "must be a time such as 300ms");
  std::set<std::string> names;
  for (const ServiceVersion& version : service.versions) {
    if (auto problem = check_version(version)) return problem;
    if (!names.insert(version.name).second) return wrong("versions", "must have names of their own");
  }
  const bool weighed = std::any_of(
      service.versions.begin(), service.versions.end(), [](const auto& one) { return one.weight > 0; });
  if (!weighed) return wrong("versions.weight", "must be more than nothing for one of them");
  return std::nullopt;
}

Result<ServiceSpec, Problem> parse_service_file(std::string_view text) {
  auto document = parse_yaml_or_json(text);
  if (!document) return refuse(std::move(document.error()));
  auto service = detail::read_document<ServiceSpec>(*document);
  if (service) unfold(*service);
  return service;
}

}  // namespace tranche::wire

TRANCHE_WIRE_JSON(tranche::wire::ServiceSpec);
TRANCHE_WIRE_JSON(tranche::wire::ServiceView);
TRANCHE_WIRE_JSON(tranche::wire::ServiceList);
