// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "gpu/vendor_ports.hpp"

namespace tranche::gpu {
namespace {

// A port without some of its devices. Only what lists devices is filtered: nobody learns the hidden names.
class HidingPort final : public DevicePort {
 public:
  HidingPort(std::unique_ptr<DevicePort> port, std::set<std::string> hidden)
      : port_(std::move(port)), hidden_(std::move(hidden)) {}
  [[nodiscard]] std::string name() const override { return port_->name(); }
  [[nodiscard]] std::vector<DeviceFacts> discover() override { return visible(port_->discover()); }
  [[nodiscard]] std::vector<DeviceSample> sample() override { return visible(port_->sample()); }
  [[nodiscard]] std::vector<DeviceProcess> processes() override { return visible(port_->processes()); }
  [[nodiscard]] std::vector<HealthSignal> signals() override { return visible(port_->signals()); }
  [[nodiscard]] std::vector<std::string> files_of(const std::string& uuid) override {
    return port_->files_of(uuid);
  }
  Result<Partition, std::string> create_partition(const std::string& uuid,
                                                  const std::string& profile,
                                                  std::uint8_t start) override {
    return port_->create_partition(uuid, profile, start);
  }
  Result<void, std::string> destroy_partition(const std::string& uuid) override {
    return port_->destroy_partition(uuid);
  }
  Result<void, std::string> set_mode(const std::string& uuid, wire::DeviceMode mode) override {
    return port_->set_mode(uuid, mode);
  }
  Result<void, std::string> reset(const std::string& uuid) override { return port_->reset(uuid); }
  [[nodiscard]] std::vector<Partition> partitions(const std::string& uuid) override {
    return port_->partitions(uuid);
  }
  Result<void, std::string> set_exclusive(const std::string& uuid, bool exclusive) override {
    return port_->set_exclusive(uuid, exclusive);
  }
  Result<void, std::string> set_time_slice(const std::string& uuid, TimeSlice length) override {
    return port_->set_time_slice(uuid, length);
  }
  Result<std::string, std::string> start_sharing(const std::string& uuid, const std::string& group) override {
    return port_->start_sharing(uuid, group);
  }
  Result<void, std::string> stop_sharing(const std::string& uuid, const std::string& group) override {
    return port_->stop_sharing(uuid, group);
  }

 private:
  template <class Entry>
  std::vector<Entry> visible(std::vector<Entry> entries) const {
    std::erase_if(entries, [&](const Entry& entry) { return hidden_.contains(entry.uuid); });
    return entries;
  }

  std::unique_ptr<DevicePort> port_;
  std::set<std::string> hidden_;
};

}  // namespace

std::vector<Partition> DevicePort::partitions(const std::string& /*uuid*/) {
  return {};
}
Result<void, std::string> DevicePort::set_exclusive(const std::string& /*uuid*/, bool /*exclusive*/) {
  return refuse("devices of " + name() + " have no exclusive mode: grant them as whole devices");
}
Result<void, std::string> DevicePort::set_time_slice(const std::string& /*uuid*/, TimeSlice /*length*/) {
  return refuse("devices of " + name() + " have no setting of time slices: share them under the guard");
}
Result<std::string, std::string> DevicePort::start_sharing(const std::string& /*uuid*/,
                                                           const std::string& /*group*/) {
  return refuse("devices of " + name() + " have no sharing daemon: share them under the guard");
}
Result<void, std::string> DevicePort::stop_sharing(const std::string& uuid, const std::string& /*group*/) {
  return refuse("no sharing daemon on " + uuid);
}

std::vector<std::unique_ptr<DevicePort>> without_repeats(std::vector<std::unique_ptr<DevicePort>> ports) {
  std::set<std::string> uuids, addresses;
  for (auto& port : ports) {
    std::set<std::string> hidden;
    for (const DeviceFacts& device : port->discover()) {
      const bool same_place = !device.pci_address.empty() && addresses.contains(device.pci_address);
      if (same_place || uuids.contains(device.uuid)) hidden.insert(device.uuid);
    }
    if (!hidden.empty()) port = std::make_unique<HidingPort>(std::move(port), std::move(hidden));
    for (const DeviceFacts& device : port->discover()) {
      uuids.insert(device.uuid);
      addresses.insert(device.pci_address);
    }
  }
  return ports;
}

std::vector<std::unique_ptr<DevicePort>> open_ports() {
  std::vector<std::unique_ptr<DevicePort>> ports;
  for (auto* const open : {+[] { return open_nvml(); },
                           +[] { return open_rocm(); },
                           +[] { return open_level_zero(); },
                           +[] { return open_opencl(); }}) {
    if (auto port = open()) ports.push_back(std::move(port));
  }
  return without_repeats(std::move(ports));
}

}  // namespace tranche::gpu
