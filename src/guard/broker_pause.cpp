// SPDX-License-Identifier: Apache-2.0
#include "guard/broker_pause.hpp"

#include <dlfcn.h>
#include <stdexcept>
#include <unistd.h>

#include "guard/host_clock.hpp"

namespace tranche::guard {
namespace {

constexpr unsigned kLockTimeoutMs = 10'000;  // Work that a process queued may have to end first.
constexpr int kRunning = 0, kCheckpointed = 2;

struct LockArguments {
  unsigned timeout_ms = kLockTimeoutMs;
  unsigned reserved0 = 0;
  std::uint64_t reserved[7] = {};
};

// The driver's process checkpoint, where the driver has it.
class Checkpoint {
 public:
  Checkpoint() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) return;
    find(driver, "cuCheckpointProcessGetState", state_);
    find(driver, "cuCheckpointProcessLock", lock_);
    find(driver, "cuCheckpointProcessCheckpoint", checkpoint_);
    find(driver, "cuCheckpointProcessRestore", restore_);
    find(driver, "cuCheckpointProcessUnlock", unlock_);
    int (*init)(unsigned) = nullptr;
    find(driver, "cuInit", init);
    const bool whole = state_ && lock_ && checkpoint_ && restore_ && unlock_ && init;
    usable_ = whole && init(0) == 0;
  }
  [[nodiscard]] bool usable() const { return usable_; }
  // False: it is no CUDA process.
  bool knows(std::uint32_t pid, int& state) const {
    return usable_ && state_(static_cast<int>(pid), &state) == 0;
  }
  // The driver's error, or zero.
  int suspend(std::uint32_t pid, int state) const {
    const int process = static_cast<int>(pid);
    LockArguments arguments;
    const int locked = state == kRunning ? lock_(process, &arguments) : 0;
    if (locked != 0 || state == kCheckpointed) return locked;
    const int error = checkpoint_(process, nullptr);
    if (error != 0) unlock_(process, nullptr);
    return error;
  }
  int bring_back(std::uint32_t pid) const { return restore_(static_cast<int>(pid), nullptr); }
  int let_go(std::uint32_t pid) const { return unlock_(static_cast<int>(pid), nullptr); }

 private:
  template <class Function>
  static void find(void* driver, const char* name, Function*& out) {
    out = reinterpret_cast<Function*>(::dlsym(driver, name));
  }
  int (*state_)(int, int*) = nullptr;
  int (*lock_)(int, LockArguments*) = nullptr;
  int (*checkpoint_)(int, void*) = nullptr;
  int (*restore_)(int, void*) = nullptr;
  int (*unlock_)(int, void*) = nullptr;
  bool usable_ = false;
};

TenantListing find_tenant(BrokerClient& broker, const std::string& name) {
  for (TenantListing& tenant : broker.list())
    if (tenant.name == name) return std::move(tenant);
  throw std::runtime_error("no tenant " + name + " at this broker: `tranche guard top` shows who is there");
}

void set_paused(BrokerClient& broker, const TenantListing& tenant, bool paused) {
  TenantLimits limits = tenant.limits;
  for (std::uint32_t i = 0; i < limits.device_count; ++i) limits.devices[i].paused = paused ? 1 : 0;
  broker.set_limits(tenant.name, limits);
}

std::uint64_t held(const TenantListing& tenant) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < tenant.limits.device_count; ++i)
    bytes += usage_of(*tenant.regions, i).vram_used;
  return bytes;
}

void note(PauseReport& report, std::uint32_t pid, const char* what, int error) {
  if (!report.trouble.empty()) report.trouble += "; ";
  report.trouble += "process " + std::to_string(pid) + ": " + what;
  if (error != 0) report.trouble += " (driver error " + std::to_string(error) + ")";
}

}  // namespace

PauseReport pause_tenant(BrokerClient& broker, const std::string& name, std::uint64_t patience_ns) {
  const TenantListing tenant = find_tenant(broker, name);
  PauseReport report;
  report.held_bytes = held(tenant);
  set_paused(broker, tenant, true);
  const Checkpoint driver;
  for (const ProcessListing& process : broker.processes(name)) {
    int state = kRunning;
    if (process.parked || !driver.knows(process.pid, state)) continue;
    const int error = driver.suspend(process.pid, state);
    if (error != 0) {
      note(report, process.pid, "the driver did not checkpoint it", error);
      continue;
    }
    if (broker.park(name, process.pid)) ++report.checkpointed;
  }
  const std::uint64_t until = monotonic_ns() + patience_ns;
  while ((report.held_after = held(tenant)) > report.held_bytes / 20 && monotonic_ns() < until)
    ::usleep(5'000);
  if (report.held_after > report.held_bytes / 20 && report.trouble.empty())
    report.trouble = driver.usable() ? "some memory cannot be moved" : "the driver has no process checkpoint";
  return report;
}

PauseReport resume_tenant(BrokerClient& broker, const std::string& name) {
  const TenantListing tenant = find_tenant(broker, name);
  PauseReport report;
  report.held_bytes = held(tenant);
  const Checkpoint driver;
  for (const ProcessListing& process : broker.processes(name)) {
    int state = kRunning;
    if (!driver.knows(process.pid, state)) continue;
    if (process.parked && !broker.unpark(name, process.pid)) {
      note(report, process.pid, "what it held is more than its limit now", 0);
      continue;
    }
    const int error = state == kCheckpointed ? driver.bring_back(process.pid) : 0;
    if (error != 0) {
      broker.park(name, process.pid);
      note(report, process.pid, "the device has no room for it", error);
      continue;
    }
    if (state != kRunning && driver.let_go(process.pid) == 0) ++report.checkpointed;
  }
  if (report.trouble.empty()) set_paused(broker, tenant, false);
  report.held_after = held(tenant);
  return report;
}

}  // namespace tranche::guard
