// SPDX-License-Identifier: Apache-2.0
#include "wire/job_spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>

#include "wire/codec_impl.hpp"

namespace tranche::wire {
namespace {

struct Signal {
  std::string_view name;
  int number = 0;
};
constexpr std::array<Signal, 10> kSignals{{{"SIGHUP", SIGHUP},
                                           {"SIGINT", SIGINT},
                                           {"SIGQUIT", SIGQUIT},
                                           {"SIGUSR1", SIGUSR1},
                                           {"SIGUSR2", SIGUSR2},
                                           {"SIGTERM", SIGTERM},
                                           {"SIGCONT", SIGCONT},
                                           {"SIGURG", SIGURG},
                                           {"SIGWINCH", SIGWINCH},
                                           {"SIGALRM", SIGALRM}}};

constexpr std::size_t kNameMax = 128;
constexpr std::uint32_t kNodesMax = 100'000;
constexpr std::uint32_t kAttemptsMax = 1000;

std::optional<Problem> wrong(std::string path, std::string message) {
  return Problem{.path = std::move(path), .message = std::move(message), .hint = {}};
}

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::optional<Problem> check_variables(std::string_view where, const TextMap& variables) {
  for (const auto& [name, value] : variables) {
    const std::string path = std::string(where) + "." + name;
    if (!is_variable_name(name)) return wrong(path, "is not a name that an environment variable can have");
    if (value.find('\0') != std::string::npos) return wrong(path, "may not contain a zero byte");
  }
  return std::nullopt;
}

}  // namespace

int signal_number(std::string_view name) {
  for (const Signal& known : kSignals) {
    if (known.name == name || known.name.substr(3) == name) return known.number;
  }
  return 0;
}

Result<Retry, std::string> Fields<Retry>::from_text(std::string_view text) {
  Retry retry;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), retry.attempts);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || retry.attempts > kAttemptsMax) {
    return refuse(std::string("must be a number of attempts from 0 to 1000, or {attempts: 3, on: [error]}"));
  }
  return retry;
}

std::optional<Problem> Fields<Retry>::check(const Retry& retry) {
  if (retry.attempts > kAttemptsMax) return wrong("attempts", "must be at most 1000");
  if (retry.backoff < Duration::zero()) return wrong("backoff", "must not be negative");
  return std::nullopt;
}

std::optional<Problem> Fields<Checkpoint>::check(const Checkpoint& checkpoint) {
  if (signal_number(checkpoint.signal) == 0) {
    return wrong("signal", "must be a signal that a process can catch, such as SIGUSR1 or SIGTERM");
  }
  if (checkpoint.grace < Duration::zero()) return wrong("grace", "must not be negative");
  return std::nullopt;
}

std::optional<Problem> Fields<Resize>::check(const Resize& resize) {
  if (!resize.signal.empty() && signal_number(resize.signal) == 0)
    return wrong("signal", "must be a signal that a process can catch, such as SIGUSR2");
  if (resize.grace < Duration::zero()) return wrong("grace", "must not be negative");
  return std::nullopt;
}

Result<VolumeMount, std::string> Fields<VolumeMount>::from_text(std::string_view text) {
  VolumeMount mount;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return refuse(std::string("must be name:/path or name:/path:ro"));
  mount.name = text.substr(0, colon);
  std::string_view path = text.substr(colon + 1);
  if (path.ends_with(":ro") || path.ends_with(":rw")) {
    mount.read_only = path.ends_with(":ro");
    path.remove_suffix(3);
  }
  mount.path = path;
  if (mount.name.empty() || !path.starts_with('/'))
    return refuse(std::string("must be name:/path or name:/path:ro"));
  return mount;
}

std::optional<Problem> Fields<JobSpec>::check(const JobSpec& job) {
  if (job.name.size() > kNameMax) return wrong("name", "must be at most 128 characters");
  if (job.num_nodes == 0 || job.num_nodes > kNodesMax)
    return wrong("num_nodes", "must be between 1 and 100000");
  if (job.workers.max > 0 && (job.num_nodes != 1 || job.units))
    return wrong(
        "workers",
        "says how many there are: leave out num_nodes, and units, whose chunks spread by themselves");
  if (job.run.empty() && job.image.empty() && job.kind != WorkloadKind::kInteractive) {
    return wrong("run", "is required unless kind is interactive or an image brings its own command");
  }
  for (const VolumeMount& mount : job.volumes) {
    if (!mount.path.starts_with('/')) return wrong("volumes", "'" + mount.path + "' must start with /");
  }
  const JobLimits& limits = job.limits;
  if (limits.vram && limits.vram->count <= 0) return wrong("limits.vram", "must be more than nothing");
  if (limits.time && *limits.time <= Duration::zero())
    return wrong("limits.time", "must be more than nothing");
  if (limits.idle && *limits.idle <= Duration::zero())
    return wrong("limits.idle", "must be more than nothing");
  if (limits.spend && limits.spend->micros <= 0)
    return wrong("limits.spend", "must be above zero; without it, only the limits of quotas count");
  if (limits.price_per_hour && limits.price_per_hour->micros < 0) {
    return wrong("limits.price_per_hour", "must not be negative");
  }
  if (job.resources.disk.count < 0) return wrong("resources.disk", "must not be negative");
  if (auto problem = check_variables("envs", job.envs)) return problem;
  return check_variables("secrets", job.secrets);
}

}  // namespace tranche::wire

TRANCHE_WIRE_CODEC(tranche::wire::JobSpec);
TRANCHE_WIRE_CODEC(tranche::wire::Resources);
TRANCHE_WIRE_CODEC(tranche::wire::JobLimits);
TRANCHE_WIRE_CODEC(tranche::wire::ModelUse);
TRANCHE_WIRE_CODEC(tranche::wire::MediaUse);
