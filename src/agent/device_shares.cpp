// SPDX-License-Identifier: Apache-2.0
#include "agent/device_shares.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "agent/files.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kFile =
    "shares";  // A line a slice: partition, tab, folder of the daemon, tab, settings.

bool wants_partition(const wire::SliceGrant& slice) {
  return slice.isolation == wire::Isolation::kHard && !slice.profile.empty();
}

bool exists(gpu::DevicePort& port, const std::string& device, const std::string& partition) {
  const auto all = port.partitions(device);
  return std::any_of(
      all.begin(), all.end(), [&](const gpu::Partition& one) { return one.uuid == partition; });
}

}  // namespace

void DeviceShares::set_up(const wire::LeaseGrant& grant,
                          const std::vector<SharedDevice>& devices,
                          const std::filesystem::path& folder) {
  std::vector<Share>& shares = leases_[grant.lease];
  for (std::size_t i = 0; i < grant.slices.size() && i < devices.size(); ++i) {
    const wire::SliceGrant& slice = grant.slices[i];
    const SharedDevice& device = devices[i];
    Share& share = shares.emplace_back(
        Share{.port = device.port, .device = device.facts.uuid, .tenant = grant.tenant, .view = {}});
    if (wants_partition(slice)) {
      set_mode(device, wire::DeviceMode::kPartitioned);
      make_partition(share, slice);
      write_down(grant.lease, folder);
    } else if (slice.isolation == wire::Isolation::kDedicated) {
      set_mode(device, wire::DeviceMode::kWhole);
      if (rules_.exclusive && device.facts.vendor == wire::GpuVendor::kNvidia) {
        if (auto set = device.port->set_exclusive(share.device, true); !set)
          throw std::runtime_error("the device could not be made exclusive: " + set.error());
        share.exclusive = true;
        write_down(grant.lease, folder);
      }
    } else if (device.facts.vendor != wire::GpuVendor::kNvidia) {
      continue;
    } else if (rules_.daemons) {
      auto started = device.port->start_sharing(share.device, text(grant.tenant));
      if (!started) throw std::runtime_error("the sharing daemon did not start: " + started.error());
      share.view.daemon_folder = std::move(*started);
      write_down(grant.lease, folder);
    } else if (rules_.time_slice != gpu::TimeSlice::kDefault) {
      if (auto set = device.port->set_time_slice(share.device, rules_.time_slice); !set)
        throw std::runtime_error("the time slice could not be set: " + set.error());
      share.turns = true;
      write_down(grant.lease, folder);
    }
  }
}

// A device in another mode would show the job something else than it was granted.
void DeviceShares::set_mode(const SharedDevice& device, wire::DeviceMode mode) {
  const auto [known, first] = modes_.emplace(device.facts.uuid, device.facts.mode);
  const bool is_cut = known->second == wire::DeviceMode::kPartitioned;
  if (is_cut == (mode == wire::DeviceMode::kPartitioned)) return;
  if (is_cut) clear_leftovers(*device.port, device.facts.uuid);
  if (auto changed = device.port->set_mode(device.facts.uuid, mode); !changed)
    throw std::runtime_error(device.facts.uuid + " did not change its mode: " + changed.error());
  known->second = mode;
}

// What no lease has is left over: the server knows only of what it granted.
void DeviceShares::make_partition(Share& share, const wire::SliceGrant& slice) {
  auto made = share.port->create_partition(share.device, slice.profile, slice.start);
  if (!made) {
    clear_leftovers(*share.port, share.device);
    made = share.port->create_partition(share.device, slice.profile, slice.start);
  }
  if (!made) throw std::runtime_error("the partition could not be made: " + made.error());
  share.view.partition = made->uuid;
}

void DeviceShares::clear_leftovers(gpu::DevicePort& port, const std::string& device) {
  for (const gpu::Partition& found : port.partitions(device))
    if (!in_use(found.uuid)) (void)port.destroy_partition(found.uuid);  // What stays is refused in words.
}

bool DeviceShares::in_use(const std::string& partition) const {
  for (const auto& [lease, shares] : leases_)
    for (const Share& share : shares)
      if (share.view.partition == partition) return true;
  return false;
}

bool DeviceShares::daemon_used_by_others(LeaseId lease, const Share& share) const {
  for (const auto& [other, shares] : leases_)
    for (const Share& one : shares)
      if (other != lease && one.device == share.device && one.tenant == share.tenant &&
          !one.view.daemon_folder.empty())
        return true;
  return false;
}

bool DeviceShares::turns_used_by_others(LeaseId lease, const Share& share) const {
  for (const auto& [other, shares] : leases_)
    for (const Share& one : shares)
      if (other != lease && one.device == share.device && one.turns) return true;
  return false;
}

void DeviceShares::write_down(LeaseId lease, const std::filesystem::path& folder) const {
  std::string lines;
  for (const Share& share : leases_.at(lease))
    lines += share.view.partition + "\t" + share.view.daemon_folder + "\t" + (share.turns ? "t" : "") +
             (share.exclusive ? "x" : "") + "\n";
  write_whole(folder / kFile, lines, 0600);
}

void DeviceShares::adopt(const wire::LeaseGrant& grant,
                         const std::vector<SharedDevice>& devices,
                         const std::filesystem::path& folder) {
  std::istringstream lines(read_whole(folder / kFile).value_or(""));
  std::string line;
  for (std::size_t i = 0; i < devices.size() && std::getline(lines, line); ++i) {
    std::istringstream parts(line);
    std::string settings;
    Share share{.port = devices[i].port, .device = devices[i].facts.uuid, .tenant = grant.tenant, .view = {}};
    std::getline(parts, share.view.partition, '\t');
    std::getline(parts, share.view.daemon_folder, '\t');
    std::getline(parts, settings);
    share.turns = settings.find('t') != std::string::npos;
    share.exclusive = settings.find('x') != std::string::npos;
    leases_[grant.lease].push_back(std::move(share));
  }
}

std::vector<StuckShare> DeviceShares::take_down(LeaseId lease) {
  std::vector<StuckShare> stuck;
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return stuck;
  for (Share& share : found->second) {
    if (daemon_used_by_others(lease, share)) share.view.daemon_folder.clear();
    if (turns_used_by_others(lease, share)) share.turns = false;
    if (std::string why = end(share); !why.empty()) stuck.push_back({share.device, std::move(why)});
  }
  if (stuck.empty()) leases_.erase(found);
  return stuck;
}

std::string DeviceShares::end(Share& share) {
  SliceView& view = share.view;
  if (!view.partition.empty() && exists(*share.port, share.device, view.partition)) {
    if (auto gone = share.port->destroy_partition(view.partition); !gone)
      return "partition " + view.partition + " cannot be taken down: " + gone.error();
  }
  view.partition.clear();
  if (!view.daemon_folder.empty()) {
    if (auto ended = share.port->stop_sharing(share.device, text(share.tenant)); !ended)
      return "the sharing daemon cannot be ended: " + ended.error();
  }
  view.daemon_folder.clear();
  if (share.turns) {
    if (auto set = share.port->set_time_slice(share.device, gpu::TimeSlice::kDefault); !set)
      return "the time slice cannot be set back: " + set.error();
  }
  share.turns = false;
  if (share.exclusive) {
    if (auto set = share.port->set_exclusive(share.device, false); !set)
      return "the device cannot be opened to more than one process again: " + set.error();
  }
  share.exclusive = false;
  return {};
}

SliceView DeviceShares::view(LeaseId lease, std::size_t slice) const {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || slice >= found->second.size()) return {};
  return found->second[slice].view;
}

}  // namespace tranche::agent
