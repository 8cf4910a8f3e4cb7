// SPDX-License-Identifier: Apache-2.0
#pragma once
// How agents, `guard run` and `guard top` speak to a broker. Throws std::runtime_error when it does not
// answer.
#include <memory>
#include <string>
#include <vector>

#include "guard/broker_wire.hpp"

namespace tranche::guard {

// A tenant's regions, mapped read-only: reading them costs the job nothing.
class TenantRegions {
 public:
  TenantRegions(int control_fd, int ledger_fd);  // Takes both descriptors.
  ~TenantRegions();
  TenantRegions(const TenantRegions&) = delete;
  TenantRegions& operator=(const TenantRegions&) = delete;
  [[nodiscard]] const ControlRegion& control() const { return *control_; }
  [[nodiscard]] const LedgerRegion& ledger() const { return *ledger_; }
  // For a broker that takes over from one that died.
  [[nodiscard]] int ledger_fd() const { return ledger_fd_; }

 private:
  const ControlRegion* control_ = nullptr;
  const LedgerRegion* ledger_ = nullptr;
  int ledger_fd_ = -1;
};

struct TenantListing {
  std::string name;
  std::uint32_t processes = 0;
  TenantLimits limits;
  std::unique_ptr<TenantRegions> regions;
};

struct ProcessListing {
  std::uint32_t pid = 0;  // As the broker's PID namespace knows it.
  bool parked = false;
};

// One device's usage, as meters and `top` read it.
struct DeviceUsage {
  std::uint64_t vram_limit = 0, vram_used = 0, vram_peak = 0, refusals = 0, dirty_bytes = 0;
  std::uint64_t device_ns = 0, launches = 0, throttled_ns = 0;
  std::uint64_t copy_bytes = 0, copy_ns = 0, copies = 0;
};
DeviceUsage usage_of(const TenantRegions& regions, std::uint32_t device);

class BrokerClient {
 public:
  explicit BrokerClient(const std::string& socket_path);
  ~BrokerClient();
  BrokerClient(const BrokerClient&) = delete;
  BrokerClient& operator=(const BrokerClient&) = delete;

  // Jobs of the tenant connect to `tenant_socket`. The tenant lives until this client closes or removes it
  // and its last process is gone. A tenant that exists is taken over with the new limits. `before`: the
  // regions as a broker that died gave them; the new one goes on with their ledger, and running jobs join it
  // again.
  std::unique_ptr<TenantRegions> create_tenant(const std::string& name,
                                               const TenantLimits& limits,
                                               const std::string& tenant_socket,
                                               std::uint32_t socket_mode = 0600,
                                               const TenantRegions* before = nullptr);
  void set_limits(const std::string& name, const TenantLimits& limits);
  void remove_tenant(const std::string& name);
  // The device was wiped between tenants: no more zeroing on allocation.
  void scrubbed(std::uint32_t physical_device);
  std::vector<TenantListing> list();
  std::vector<ProcessListing> processes(const std::string& name);
  // The account of a process that was checkpointed out of the device. See broker_pause.hpp.
  bool park(const std::string& name, std::uint32_t pid);    // False: it is gone.
  bool unpark(const std::string& name, std::uint32_t pid);  // False: the limit no longer has room for it.
  // Readable when the broker is gone.
  [[nodiscard]] int descriptor() const { return socket_; }

  // Whether a broker answers there.
  static bool answers(const std::string& socket_path);

 private:
  Reply ask(const Request& request, int* fds, int passed = -1);
  int socket_ = -1;
};

}  // namespace tranche::guard
