// SPDX-License-Identifier: Apache-2.0
#include "api/metrics.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "base/wall_clock.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

using engine::State;

constexpr std::int64_t kMebibyte = 1 << 20;

std::string label_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out;
}

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// One metric: its head once, then a line for each thing it was measured of.
class Family {
 public:
  Family(Fleet fleet, std::string_view name, std::string_view kind, std::string_view help)
      : name_((fleet == Fleet::kSimulated ? "sim_" : "") + std::string(name)) {
    head_ =
        "# HELP " + name_ + ' ' + std::string(help) + "\n# TYPE " + name_ + ' ' + std::string(kind) + '\n';
  }
  void add(const Labels& labels, std::string_view value) {
    lines_ += name_ + '{';
    bool first = true;
    for (const auto& [name, text] : labels) {
      if (!first) lines_ += ',';
      first = false;
      lines_ += std::string(name) + "=\"" + label_text(text) + '"';
    }
    lines_ += "} " + std::string(value) + '\n';
  }
  void add(const Labels& labels, std::int64_t value) { add(labels, std::to_string(value)); }
  // Nothing when nothing was measured: an empty family tells nobody anything.
  void append_to(std::string& out) const {
    if (!lines_.empty()) out += head_ + lines_;
  }

 private:
  std::string name_;
  std::string head_;
  std::string lines_;
};

bool is_of(Fleet fleet, const engine::Node& node) {
  return node.simulated == (fleet == Fleet::kSimulated);
}

std::string thousandths(std::int64_t value) {
  std::string fraction = std::to_string(value % 1000);
  return std::to_string(value / 1000) + '.' + std::string(3 - fraction.size(), '0') + fraction;
}

std::string seconds(std::uint64_t nanoseconds) {
  std::string fraction = std::to_string(nanoseconds % 1'000'000'000);
  return std::to_string(nanoseconds / 1'000'000'000) + '.' + std::string(9 - fraction.size(), '0') + fraction;
}

// As dcgm-exporter labels a device; what it calls `gpu` is the number on its node.
Labels device_labels(const engine::Node& node,
                     const engine::Device& device,
                     std::size_t index,
                     std::string_view hostname_label) {
  return {{"gpu", std::to_string(index)},
          {"UUID", device.facts.uuid},
          {"pci_bus_id", device.facts.pci_address},
          {"device", text(device.id)},
          {"modelName", device.facts.model.empty() ? device.facts.name : device.facts.model},
          {hostname_label, node.name},
          {"simulated", node.simulated ? "true" : "false"}};
}

// Families of our own speak of a device by the id it has in the API.
Labels own_labels(const engine::Node& node, const engine::Device& device) {
  return {{"device", text(device.id)},
          {"node", node.name},
          {"model", device.facts.model.empty() ? device.facts.name : device.facts.model},
          {"simulated", node.simulated ? "true" : "false"}};
}

struct DeviceMetric {
  std::string_view name;
  std::string_view kind;
  std::string_view help;
  std::function<std::string(const wire::DeviceSample&, const wire::DeviceFacts&)> value;
};

template <class Value>
std::string if_measured(const std::optional<Value>& value) {
  return value ? std::to_string(*value) : "";
}
template <class Value>
std::string if_given(const wire::DeviceSample& sample, std::uint8_t reading, Value value) {
  if ((sample.missing & reading) != 0) return {};
  if constexpr (std::is_same_v<Value, std::string>)
    return value;
  else
    return std::to_string(value);
}
std::string ratio_if_measured(const std::optional<std::uint16_t>& milli) {
  return milli ? thousandths(*milli) : "";
}

// Only what is measured: what a device does not count is left out, not made up.
const std::array<DeviceMetric, 14>& device_metrics() {
  using S = wire::DeviceSample;
  using F = wire::DeviceFacts;
  static const std::array<DeviceMetric, 14> kAll{
      {{"DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "GPU utilization (in %).",
        [](const S& s, const F&) { return if_given(s, wire::kNoBusy, s.busy_milli / 10); }},
       {"DCGM_FI_DEV_FB_USED",
        "gauge",
        "Framebuffer memory used (in MiB).",
        [](const S& s, const F&) { return if_given(s, wire::kNoMemory, s.vram_used.count / kMebibyte); }},
       {"DCGM_FI_DEV_FB_FREE",
        "gauge",
        "Framebuffer memory free (in MiB).",
        [](const S& s, const F& f) {
          return if_given(
              s, wire::kNoMemory, (f.vram.count - std::min(s.vram_used.count, f.vram.count)) / kMebibyte);
        }},
       {"DCGM_FI_DEV_FB_TOTAL",
        "gauge",
        "Framebuffer memory in all (in MiB).",
        [](const S&, const F& f) { return std::to_string(f.vram.count / kMebibyte); }},
       {"DCGM_FI_DEV_POWER_USAGE",
        "gauge",
        "Power draw (in W).",
        [](const S& s, const F&) { return if_given(s, wire::kNoPower, thousandths(s.power_milliwatts)); }},
       {"DCGM_FI_DEV_GPU_TEMP",
        "gauge",
        "GPU temperature (in C).",
        [](const S& s, const F&) { return if_given(s, wire::kNoTemperature, s.temperature_celsius); }},
       {"DCGM_FI_DEV_SM_CLOCK",
        "gauge",
        "SM clock frequency (in MHz).",
        [](const S& s, const F&) { return if_given(s, wire::kNoClock, s.sm_clock_megahertz); }},
       {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "Double-bit ECC errors since the driver was loaded.",
        [](const S& s, const F&) { return if_given(s, wire::kNoErrors, s.ecc_uncorrected); }},
       {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "counter",
        "Single-bit ECC errors since the driver was loaded.",
        [](const S& s, const F&) { return if_measured(s.ecc_corrected); }},
       {"DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "Time in which memory was read or written (in %).",
        [](const S& s, const F&) {
          return s.memory_busy_milli ? std::to_string(*s.memory_busy_milli / 10) : std::string();
        }},
       {"DCGM_FI_PROF_SM_ACTIVE",
        "gauge",
        "Ratio of multiprocessors with work, over time.",
        [](const S& s, const F&) { return ratio_if_measured(s.sm_active_milli); }},
       {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "Ratio of time in which tensor cores were at work.",
        [](const S& s, const F&) { return ratio_if_measured(s.tensor_active_milli); }},
       {"DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "Ratio of the memory's throughput that was used.",
        [](const S& s, const F&) { return ratio_if_measured(s.dram_active_milli); }},
       {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Energy since the driver was loaded (in mJ).",
        [](const S& s, const F&) { return if_measured(s.energy_millijoules); }}}};
  return kAll;
}

void append_node_metrics(std::string& out, const State& state, const server::AgentHub& hub, Fleet fleet) {
  Family up(fleet, "tranche_node_up", "gauge", "1 while the node's agent is connected.");
  Family busy(fleet, "tranche_node_cpu_busy_ratio", "gauge", "Share of the node's CPUs that is busy.");
  Family memory(fleet, "tranche_node_memory_used_bytes", "gauge", "Host memory in use.");
  Family leases(fleet, "tranche_node_leases", "gauge", "Leases that the node holds.");
  for (const auto& [id, node] : state.nodes) {
    if (node.state == wire::NodeState::kRetired || !is_of(fleet, node)) continue;
    const server::LinkFacts facts = hub.facts(id);
    const Labels labels{{"node", node.name}, {"simulated", node.simulated ? "true" : "false"}};
    up.add(labels, facts.connected ? 1 : 0);
    if (!facts.connected) continue;
    busy.add(labels, thousandths(facts.last.cpu_milli));
    memory.add(labels, facts.last.memory_used.count);
    leases.add(labels, facts.last.leases);
  }
  for (const Family* family : {&up, &busy, &memory, &leases}) family->append_to(out);
}

}  // namespace

void append_metric(std::string& out,
                   std::string_view name,
                   std::string_view kind,
                   std::string_view help,
                   std::string_view value) {
  out += "# HELP " + std::string(name) + ' ' + std::string(help) + "\n# TYPE " + std::string(name) + ' ' +
         std::string(kind) + '\n' + std::string(name) + ' ' + std::string(value) + '\n';
}

void append_device_metrics(std::string& out,
                           const State& state,
                           const server::AgentHub& hub,
                           Fleet fleet,
                           std::string_view hostname_label) {
  std::vector<Family> families;
  for (const DeviceMetric& metric : device_metrics())
    families.emplace_back(fleet, metric.name, metric.kind, metric.help);
  Family healthy(
      fleet, "tranche_device_healthy", "gauge", "1 while the device takes work; its state is a label.");
  Family promised(
      fleet, "tranche_device_promised_ratio", "gauge", "Share of the device's compute held by leases.");
  for (const auto& [node_id, node] : state.nodes) {
    if (node.state == wire::NodeState::kRetired || !is_of(fleet, node)) continue;
    const server::LinkFacts facts = hub.facts(node_id);
    for (std::size_t index = 0; index < node.devices.size(); ++index) {
      const engine::Device& device = state.devices.at(node.devices[index]);
      const Labels labels = device_labels(node, device, index, hostname_label);
      const Labels own = own_labels(node, device);
      Labels with_state = own;
      with_state.emplace_back("state", std::string(wire::name_of(device.state)));
      healthy.add(with_state, device.state == wire::DeviceState::kHealthy ? 1 : 0);
      std::int64_t milli = 0;
      for (const LeaseId id : state.index.capacity->leases_on(node_id))
        for (const engine::Slice& slice : state.leases.at(id).slices)
          if (slice.device == device.id) milli += slice.milli;
      promised.add(own, thousandths(milli));
      for (const wire::DeviceSample& sample : facts.last.devices) {
        if (sample.uuid != device.facts.uuid || !facts.connected) continue;
        for (std::size_t i = 0; i < families.size(); ++i)
          if (const std::string value = device_metrics()[i].value(sample, device.facts); !value.empty())
            families[i].add(labels, value);
      }
    }
  }
  for (const Family& family : families) family.append_to(out);
  healthy.append_to(out);
  promised.append_to(out);
  append_node_metrics(out, state, hub, fleet);
}

void append_slice_metrics(std::string& out, const State& state, const server::AgentHub& hub, Fleet fleet) {
  Family vram(
      fleet, "tranche_slice_vram_used_bytes", "gauge", "Device memory of a slice, as the guard counts.");
  Family limit(fleet, "tranche_slice_vram_limit_bytes", "gauge", "Device memory that the slice may use.");
  Family share(
      fleet, "tranche_slice_compute_limit_ratio", "gauge", "Share of the device that the slice may use.");
  Family busy(
      fleet, "tranche_slice_device_seconds_total", "counter", "Time that the slice kept its device busy.");
  Family throttled(
      fleet, "tranche_slice_throttled_seconds_total", "counter", "Time that the slice had to wait.");
  Family refused(fleet, "tranche_slice_vram_refusals_total", "counter", "Allocations refused at the limit.");
  Family copied(
      fleet, "tranche_slice_copied_bytes_total", "counter", "Bytes copied between host and device.");
  for (const auto& [key, now] : hub.telemetry().slices()) {
    const engine::Lease* lease = state.lease(key.first);
    if (lease == nullptr || !lease->live() || !is_of(fleet, state.nodes.at(lease->node))) continue;
    const Labels labels{{"job", text(lease->job)},
                        {"lease", text(lease->id)},
                        {"device", text(key.second)},
                        {"tenant", engine::path_of(state, lease->tenant)},
                        {"owner", engine::path_of(state, lease->owner)}};
    vram.add(labels, now.sample.vram_used.count);
    busy.add(labels, seconds(now.sample.device_nanoseconds));
    throttled.add(labels, seconds(now.sample.throttled_nanoseconds));
    refused.add(labels, static_cast<std::int64_t>(now.sample.vram_refusals));
    copied.add(labels, static_cast<std::int64_t>(now.sample.copied_bytes));
    for (const engine::Slice& slice : lease->slices) {
      if (slice.device != key.second) continue;
      limit.add(labels, slice.vram);
      share.add(labels, thousandths(slice.milli));
    }
  }
  for (const Family* family : {&vram, &limit, &share, &busy, &throttled, &refused, &copied})
    family->append_to(out);
}

void append_tenant_metrics(std::string& out, const State& state, Fleet fleet) {
  struct Queue {
    std::int64_t pending = 0, running = 0, milli = 0;
    Duration longest{};
  };
  const Instant now = clock_at_least(state.now);
  const bool simulated = fleet == Fleet::kSimulated;
  std::map<PartyId, Queue> queues;
  for (const auto& [id, party] : state.parties)
    if (id.kind() == PartyKind::kTenant) queues[id];
  for (const auto& [id, job] : state.jobs) {
    if (is_over(job.state) || job.ask.simulated != simulated) continue;
    Queue& queue = queues[engine::tenant_of(state, job.owner)];
    if (job.state == wire::JobState::kPending) {
      ++queue.pending;
      queue.longest = std::max(queue.longest, now - job.submitted);
    } else {
      ++queue.running;
      queue.milli += job.ask.gpu_milli();
    }
  }
  Family pending(fleet, "tranche_queue_jobs", "gauge", "Jobs that wait.");
  Family running(fleet, "tranche_tenant_running_jobs", "gauge", "Jobs that have a place.");
  Family gpus(fleet, "tranche_tenant_gpus", "gauge", "Devices held by running jobs, in whole ones.");
  Family wait(
      fleet, "tranche_queue_longest_wait_seconds", "gauge", "How long the first in the queue has waited.");
  Family storage(
      fleet, "tranche_tenant_storage_bytes", "gauge", "Storage set aside: scratch of jobs, and volumes.");
  for (const auto& [id, queue] : queues) {
    const Labels labels{{"tenant", engine::path_of(state, id)}, {"simulated", simulated ? "true" : "false"}};
    pending.add(labels, queue.pending);
    running.add(labels, queue.running);
    gpus.add(labels, thousandths(queue.milli));
    wait.add(labels, thousandths(queue.longest.count() / 1000));
    if (!simulated) storage.add({labels.front()}, state.parties.at(id).usage.storage_bytes);
  }
  for (const Family* family : {&pending, &running, &gpus, &wait, &storage}) family->append_to(out);
}

}  // namespace tranche::api
