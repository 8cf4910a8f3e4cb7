// SPDX-License-Identifier: Apache-2.0
#pragma once
// The job file after reading: one canonical form for every dialect it can be written in.
//
// There are as many of these as there are jobs waiting, so rare parts are boxed. JSON leaves out what is at
// its default, so that a small job stays a small text.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/amounts.hpp"
#include "wire/ask.hpp"
#include "wire/boxed.hpp"
#include "wire/codec.hpp"
#include "wire/gpu_request.hpp"
#include "wire/isolation.hpp"
#include "wire/start_window.hpp"
#include "wire/text_map.hpp"
#include "wire/workload.hpp"

namespace tranche::wire {

enum class Network : std::uint8_t { kNone, kGang, kInternet };  // What the job may reach.
BOOST_DESCRIBE_ENUM(Network, kNone, kGang, kInternet)

enum class Burst : std::uint8_t { kNever, kAuto, kOnly };  // Whether bought capacity may be used.
BOOST_DESCRIBE_ENUM(Burst, kNever, kAuto, kOnly)

enum class RetryOn : std::uint8_t { kPreemption, kFault, kError };
BOOST_DESCRIBE_ENUM(RetryOn, kPreemption, kFault, kError)

struct Resources {
  GpuRequest gpus{};
  CpuRange cpus{};
  MemoryBounds memory{};
  Bytes disk{};
  Isolation isolation = Isolation::kDefault;
  Topology topology = Topology::kAny;
  bool whole_node = false;
  bool operator==(const Resources&) const = default;
};
BOOST_DESCRIBE_STRUCT(Resources, (), (gpus, cpus, memory, disk, isolation, topology, whole_node))

struct JobLimits {
  std::optional<Bytes> vram{};
  std::optional<Share> compute{};
  std::optional<Duration> time{};
  std::optional<Money> spend{};
  Boxed<Duration> idle{};
  Boxed<Money> price_per_hour{};
  bool operator==(const JobLimits&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobLimits, (), (vram, compute, time, spend, idle, price_per_hour))

// How often a unit of a job (a frame of a render) is tried when the job says nothing of retries.
constexpr std::uint32_t kTriesOfUnits = 3;

struct Retry {
  std::uint32_t attempts = 0;  // Beyond the first.
  std::vector<RetryOn> on{};   // Empty: everything but the job's own errors.
  Duration backoff{};
  bool operator==(const Retry&) const = default;
};
BOOST_DESCRIBE_STRUCT(Retry, (), (attempts, on, backoff))

// As the person wrote it; resolved to offsets where the zone's rules are known.
struct JobWindow {
  std::string start{};       // 22:00
  std::string end{};         // 06:00
  std::string tz{};          // IANA zone; empty: UTC.
  std::string recurrence{};  // Every day; nothing else is taken.
  WindowEnd at_end = WindowEnd::kFinish;
  bool operator==(const JobWindow&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobWindow, (), (start, end, tz, recurrence, at_end))

struct Checkpoint {
  std::string signal = "SIGUSR1";
  Duration grace = std::chrono::seconds(120);
  std::optional<Duration> every{};
  std::string path{};
  bool operator==(const Checkpoint&) const = default;
};
BOOST_DESCRIBE_STRUCT(Checkpoint, (), (signal, grace, every, path))

// How a job is told that its slice became smaller or larger, and how long it has to give memory back.
struct Resize {
  std::string signal{};  // Empty: it is not told.
  Duration grace = std::chrono::seconds(10);
  bool operator==(const Resize&) const = default;
};
BOOST_DESCRIBE_STRUCT(Resize, (), (signal, grace))

struct VolumeMount {
  std::string name{};
  std::string path{};
  bool read_only = false;
  bool operator==(const VolumeMount&) const = default;
};
BOOST_DESCRIBE_STRUCT(VolumeMount, (), (name, path, read_only))

struct JobSpec {
  // Ordered by size here, and for people in the description below.
  std::uint32_t num_nodes = 1;
  WorkloadKind kind = WorkloadKind::kBatch;
  Priority priority{};
  bool preemptible = false;
  bool cheapest = false;
  bool pause = true;
  Network network = Network::kNone;
  Burst burst = Burst::kNever;
  std::string name{};
  std::string workdir{};
  Resources resources{};
  std::string image{};
  TextMap envs{};
  TextMap secrets{};
  std::vector<VolumeMount> volumes{};
  TextMap file_mounts{};
  std::string setup{};
  std::string run{};
  JobLimits limits{};
  Boxed<Retry> retry{};
  Boxed<JobWindow> window{};
  std::optional<Instant> deadline{};
  Boxed<std::string> schedule{};
  Boxed<Checkpoint> checkpoint{};
  std::string sku{};
  Boxed<std::map<std::string, UnitRange>> units{};
  Boxed<ModelUse> model{};
  Boxed<MediaUse> media{};
  TextMap labels{};
  std::string infra{};
  std::vector<std::string> after{};
  std::uint32_t chunk = 0;
  std::uint16_t port = 0;
  WorkerRange workers{};
  Boxed<Resize> resize{};
  bool operator==(const JobSpec&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobSpec,
                      (),
                      (name,
                       kind,
                       workdir,
                       num_nodes,
                       resources,
                       image,
                       envs,
                       secrets,
                       volumes,
                       file_mounts,
                       setup,
                       run,
                       limits,
                       retry,
                       priority,
                       preemptible,
                       network,
                       window,
                       deadline,
                       schedule,
                       burst,
                       checkpoint,
                       sku,
                       units,
                       model,
                       media,
                       labels,
                       infra,
                       after,
                       chunk,
                       port,
                       cheapest,
                       workers,
                       resize,
                       pause))

template <>
struct Fields<Resources> {
  static constexpr std::string_view kAbout = "What each node of the job needs.";
  static constexpr std::array kAliases{
      Alias{"accelerators", "gpus"}, Alias{"gpu", "gpus"}, Alias{"cpu", "cpus"}};
  static constexpr std::array kDocs{
      FieldDoc{
          "gpus",
          "H100:0.5, 10GB, A100-80GB:2, 24GB..80GB:4, H100:1g.10gb, [L4, A100], {gpu: H100, vram: 20GB}."},
      FieldDoc{"cpus", "4, 4+ or 4..8."},
      FieldDoc{"memory", "32GB, 32+ or 16GB..64GB; a bare number is GB."},
      FieldDoc{"disk", "Scratch space, wiped afterwards."},
      FieldDoc{"isolation", "How far apart from other tenants the job is kept on hardware."},
      FieldDoc{"topology", "How close together the nodes of the job must be."},
      FieldDoc{"whole_node", "Nobody else's work on the same nodes."},
  };
  static constexpr bool kOmitDefaults = true;
};
template <>
struct Fields<JobLimits> {
  static constexpr std::string_view kAbout =
      "What the job may not exceed. It is ended, or refused more, at a limit.";
  static constexpr std::array kAliases{Alias{"max_duration", "time"}, Alias{"max_price", "price_per_hour"}};
  static constexpr std::array kDocs{
      FieldDoc{"vram", "On each device."},
      FieldDoc{"compute", "Share of each device's compute."},
      FieldDoc{"time", "Execution time."},
      FieldDoc{"spend", "The most the whole job may cost."},
      FieldDoc{"idle", "Ends the job after this long without device use."},
      FieldDoc{"price_per_hour", "The most an hour of one device may cost."},
  };
};
template <>
struct Fields<Retry> {
  static constexpr std::string_view kAbout = "How often, and after what, the job is started again.";
  static constexpr std::array kAliases{Alias{"on_events", "on"}};
  static constexpr bool kOmitDefaults = true;
  static constexpr std::string_view kTextSchema = R"("type":"integer","minimum":0,"maximum":1000)";
  static Result<Retry, std::string> from_text(std::string_view text);
  static std::optional<Problem> check(const Retry& retry);
};
template <>
struct Fields<JobWindow> {
  static constexpr std::string_view kAbout = "The hours of every day in which the job may start.";
  static constexpr std::array kRequired{std::string_view("start"), std::string_view("end")};
  static constexpr std::array kAliases{
      Alias{"from", "start"}, Alias{"until", "end"}, Alias{"timezone", "tz"}};
  static constexpr std::array kDocs{
      FieldDoc{"start", "Local time of day, such as 22:00."},
      FieldDoc{"end", "Such as 06:00; before start: of the next day."},
      FieldDoc{"tz", "IANA name of the zone; empty: UTC."},
      FieldDoc{"recurrence", "A window opens every day: FREQ=DAILY, or nothing."},
      FieldDoc{"at_end", "finish: what has started goes on; stop: it is checkpointed until the next window."},
  };
  static constexpr bool kOmitDefaults = true;
};
template <>
struct Fields<Checkpoint> {
  static constexpr std::string_view kAbout =
      "How the job is told to save its state, and how long that takes.";
  static constexpr bool kOmitDefaults = true;
  static std::optional<Problem> check(const Checkpoint& checkpoint);
};
template <>
struct Fields<Resize> {
  static constexpr std::string_view kAbout =
      "How the job is told that its slice (0.25..0.5) became smaller or larger.";
  static constexpr std::array kDocs{
      FieldDoc{"signal", "Sent after each change; empty: none."},
      FieldDoc{"grace", "To give back memory that it holds beyond its new limit."},
  };
  static constexpr bool kOmitDefaults = true;
  static std::optional<Problem> check(const Resize& resize);
};
template <>
struct Fields<VolumeMount> {
  static constexpr std::string_view kAbout = "A volume of the tenant, and where the job sees it.";
  static constexpr std::array kRequired{std::string_view("name"), std::string_view("path")};
  static constexpr bool kOmitDefaults = true;
  static constexpr std::string_view kTextSchema =
      R"("type":"string","examples":["data:/data","weights:/weights:ro"])";
  static Result<VolumeMount, std::string> from_text(std::string_view text);
};
template <>
struct Fields<JobSpec> {
  static constexpr std::string_view kName = "Job";
  static constexpr std::string_view kAbout = "A job for Tranche: job.yaml, or the body of a submission.";
  static constexpr std::array kAliases{Alias{"nodes", "num_nodes"},
                                       Alias{"working_dir", "workdir"},
                                       Alias{"env", "envs"},
                                       Alias{"use_spot", "preemptible"}};
  static constexpr std::array kDocs{
      FieldDoc{"name", "For people; need not be unique."},
      FieldDoc{"kind",
               "What the job does; decides units of progress, usual shape and how it may be stopped."},
      FieldDoc{"workdir", "Directory uploaded and started in."},
      FieldDoc{"num_nodes", "Nodes of a gang: all start, or none."},
      FieldDoc{"image", "Container image; empty: the sandbox of the node."},
      FieldDoc{"envs", "Environment."},
      FieldDoc{"secrets", "Environment that is sealed at rest and never logged."},
      FieldDoc{"volumes", "name:/path, or name:/path:ro."},
      FieldDoc{"file_mounts", "Path in the job: where it comes from."},
      FieldDoc{"setup", "Commands before the run; a list is joined."},
      FieldDoc{"run", "The command. Required unless the job is interactive."},
      FieldDoc{"retry",
               "Times to start again, or when and how; units are tried again twice unless it says else."},
      FieldDoc{"priority", "0..100, or idle, low, normal, high, critical."},
      FieldDoc{"preemptible", "May be stopped for others; cheaper, and starts sooner."},
      FieldDoc{"network", "What the job may reach."},
      FieldDoc{"deadline", "Must have ended by then."},
      FieldDoc{"schedule", "Cron line (UTC) on which the job is submitted again."},
      FieldDoc{"burst", "Whether bought capacity may be used."},
      FieldDoc{"sku", "A shape the operator defined: small, medium, large."},
      FieldDoc{"units", "What there is to do: {frames: 1..240}."},
      FieldDoc{"labels", "For policy, cost reports and search."},
      FieldDoc{"infra",
               "local, slurm, k8s, burst/PROVIDER or simulated; empty: wherever it fits, never simulated."},
      FieldDoc{"after", "Jobs that must have ended first: job_00007K (well), or job_00007K:any."},
      FieldDoc{"chunk", "Units that one lease works through; 0: as many as suit."},
      FieldDoc{"port", "Of a service: the port it listens on."},
      FieldDoc{"workers",
               "Like num_nodes, between bounds: 2..8 starts with what is free, and is started again from its "
               "checkpoint with more or fewer."},
      FieldDoc{"cheapest", "Starts when the price list is lowest; needs a deadline and a time limit."},
      FieldDoc{"pause",
               "false: it may not be suspended for work that goes first; it is stopped and started again."},
  };
  static constexpr bool kOmitDefaults = true;
  static std::optional<Problem> check(const JobSpec& job);
};

// A signal a process may catch, by name with or without SIG; 0: none such.
int signal_number(std::string_view name);

// Reads a job file in YAML or JSON: our own form, SkyPilot's and dstack's. docs/job-file.md lists what is
// taken.
Result<JobSpec, Problem> parse_job_file(std::string_view text);

// JSON Schema 2020-12 of the job file, for editors and checks: docs/job.schema.json.
std::string job_file_schema();

}  // namespace tranche::wire
