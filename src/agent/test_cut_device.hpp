// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices that can be cut, for tests: the scripted ones judge every layout by the table of the model, the
// sharing daemon is a script that keeps its state in files, and both can be made to refuse.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "agent/files.hpp"
#include "gpu/mps_control.hpp"
#include "gpu/port.hpp"

namespace tranche::agent {

// Stays while agents, and their ports, come and go.
class CutMachine {
  template <class Action>
  auto locked(Action action) {
    const std::lock_guard lock(mutex_);  // The agent's thread, and the test's.
    return action();
  }

 public:
  explicit CutMachine(const std::filesystem::path& folder) : folder_(folder) {
    make_folder(folder_, 0755);
    make_folder(folder_ / "bin", 0755);
    write_whole(
        folder_ / "script.yaml", "devices:\n  - {model: A100-80GB, count: 2, mode: partitioned}\n", 0644);
    write_whole(
        folder_ / "bin/nvidia-cuda-mps-control",
        "#!/bin/sh\nstate=$CUDA_MPS_PIPE_DIRECTORY/control\n"
        "if [ \"$1\" = -d ]; then [ ! -e \"$state\" ] && echo $CUDA_VISIBLE_DEVICES > \"$state\"; exit; fi\n"
        "[ -e \"$state\" ] || { echo 'Cannot find MPS control daemon process'; exit 1; }\n"
        "read -r word; case $word in quit) rm \"$state\" ;; get_server_list) ;; *) exit 1 ;; esac\n",
        0755);
    const char* const path = std::getenv("PATH");
    ::setenv(
        "PATH", ((folder_ / "bin").string() + ":" + (path == nullptr ? "/usr/bin:/bin" : path)).c_str(), 1);
    device_ = gpu::open_scripted((folder_ / "script.yaml").string(), "test");
  }
  std::unique_ptr<gpu::DevicePort> port();

  [[nodiscard]] std::string uuid(std::size_t index) {
    return locked([&] { return device_->discover()[index].uuid; });
  }
  [[nodiscard]] std::vector<gpu::Partition> partitions(std::size_t index) {
    const std::string device = uuid(index);
    return locked([&] { return device_->partitions(device); });
  }
  // By somebody else: an operator, or an agent that was killed before it wrote it down.
  void cut(std::size_t index, const std::string& profile, std::uint8_t start) {
    const std::string device = uuid(index);
    locked([&] { return device_->create_partition(device, profile, start).has_value(); });
  }
  void refuse_to_destroy(bool refuses) {
    locked([&] { return refuses_ = refuses; });
  }
  [[nodiscard]] bool daemon_runs(const std::string& device, PartyId tenant) const {
    return std::filesystem::exists(gpu::mps_pipe_folder(device, text(tenant), daemons()) + "/control");
  }
  [[nodiscard]] gpu::TimeSlice time_slice(const std::string& device) {
    return locked([&] { return time_slices_[device]; });
  }
  [[nodiscard]] bool is_exclusive(const std::string& device) {
    return locked([&] { return exclusive_.contains(device); });
  }
  [[nodiscard]] std::string daemons() const { return (folder_ / "mps").string(); }

 private:
  friend class CutPort;
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::unique_ptr<gpu::DevicePort> device_;
  bool refuses_ = false;
  std::map<std::string, gpu::TimeSlice> time_slices_;
  std::set<std::string> exclusive_;
};

class CutPort final : public gpu::DevicePort {
 public:
  explicit CutPort(CutMachine& machine) : machine_(machine) {}
  [[nodiscard]] std::string name() const override { return "test"; }
  [[nodiscard]] std::vector<wire::DeviceFacts> discover() override {
    return machine_.locked([&] { return machine_.device_->discover(); });
  }
  [[nodiscard]] std::vector<wire::DeviceSample> sample() override { return {}; }
  [[nodiscard]] std::vector<gpu::DeviceProcess> processes() override { return {}; }
  [[nodiscard]] std::vector<wire::HealthSignal> signals() override { return {}; }
  [[nodiscard]] std::vector<std::string> files_of(const std::string&) override { return {}; }
  Result<gpu::Partition, std::string> create_partition(const std::string& uuid,
                                                       const std::string& profile,
                                                       std::uint8_t start) override {
    return machine_.locked([&] { return machine_.device_->create_partition(uuid, profile, start); });
  }
  Result<void, std::string> destroy_partition(const std::string& uuid) override {
    return machine_.locked([&]() -> Result<void, std::string> {
      if (machine_.refuses_) return refuse(std::string("process 4711 uses the partition: end it first"));
      return machine_.device_->destroy_partition(uuid);
    });
  }
  Result<void, std::string> set_mode(const std::string& uuid, wire::DeviceMode mode) override {
    return machine_.locked([&] { return machine_.device_->set_mode(uuid, mode); });
  }
  Result<void, std::string> reset(const std::string&) override { return {}; }
  Result<void, std::string> set_time_slice(const std::string& uuid, gpu::TimeSlice length) override {
    return machine_.locked([&]() -> Result<void, std::string> {
      machine_.time_slices_[uuid] = length;
      return machine_.device_->set_time_slice(uuid, length);
    });
  }
  Result<void, std::string> set_exclusive(const std::string& uuid, bool exclusive) override {
    return machine_.locked([&]() -> Result<void, std::string> {
      if (exclusive) machine_.exclusive_.insert(uuid);
      if (!exclusive) machine_.exclusive_.erase(uuid);
      return machine_.device_->set_exclusive(uuid, exclusive);
    });
  }
  [[nodiscard]] std::vector<gpu::Partition> partitions(const std::string& uuid) override {
    return machine_.locked([&] { return machine_.device_->partitions(uuid); });
  }
  Result<std::string, std::string> start_sharing(const std::string& uuid, const std::string& group) override {
    if (auto started = gpu::start_mps(uuid, group, machine_.daemons()); !started)
      return refuse(std::move(started.error()));
    return gpu::mps_pipe_folder(uuid, group, machine_.daemons());
  }
  Result<void, std::string> stop_sharing(const std::string& uuid, const std::string& group) override {
    return gpu::stop_mps(uuid, group, machine_.daemons());
  }

 private:
  CutMachine& machine_;
};

inline std::unique_ptr<gpu::DevicePort> CutMachine::port() {
  return std::make_unique<CutPort>(*this);
}

}  // namespace tranche::agent
