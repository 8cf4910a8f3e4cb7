// SPDX-License-Identifier: Apache-2.0
#pragma once
// One tenant as the broker holds it: its two regions, its limits, and the processes that joined.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guard/broker_wire.hpp"

namespace tranche::guard {

struct JoinedProcess {
  int link = -1;   // The process's connection; its end is a hint that it died.
  int pidfd = -1;  // Certain knowledge, in any PID namespace; -1 where the kernel has none.
  ProcessIdentity identity;
  std::uint32_t pid = 0;  // As the broker knows it.
};

class BrokerTenant {
 public:
  // Null when the kernel gives no memory or descriptors.
  static std::unique_ptr<BrokerTenant> create(const std::string& name,
                                              const TenantLimits& limits,
                                              std::uint64_t now);
  // Goes on with the ledger of a broker that died (takes the descriptor): accounts and charges stand.
  static std::unique_ptr<BrokerTenant> resume(const std::string& name,
                                              const TenantLimits& limits,
                                              int ledger_fd,
                                              std::uint64_t now);
  ~BrokerTenant();
  BrokerTenant(const BrokerTenant&) = delete;
  BrokerTenant& operator=(const BrokerTenant&) = delete;

  void set_limits(const TenantLimits& limits, std::uint64_t now);
  void beat(std::uint64_t now) { control_->heartbeat_at.store(now, std::memory_order_relaxed); }
  // Wakes whoever waits at a gate, so that new rules are seen at once.
  void wake_all();

  // Bytes on each device that came back from a process that is gone.
  struct Reclaimed {
    std::uint64_t bytes[kDevicesMax] = {};
  };
  Reclaimed forget(const ProcessIdentity& process);
  // What a checkpointed process held leaves the account, and comes back when it goes on.
  Reclaimed park(const JoinedProcess& process);
  bool unpark(const JoinedProcess& process);
  [[nodiscard]] bool parked(const JoinedProcess& process) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const TenantLimits& limits() const { return limits_; }
  [[nodiscard]] ControlRegion& control() { return *control_; }
  [[nodiscard]] LedgerRegion& ledger() { return *ledger_; }
  [[nodiscard]] int control_fd() const { return control_fd_; }
  [[nodiscard]] int ledger_fd() const { return ledger_fd_; }
  [[nodiscard]] int bell() const { return bell_; }

  std::vector<JoinedProcess> processes;
  int listener = -1;
  std::string socket_path;
  int owner = -1;                              // The agent's connection that made it.
  std::uint64_t rings = 0;                     // Of the bell in the current millisecond.
  std::uint64_t ringing_since = 0;             //
  std::uint64_t muted_until = 0;               // A bell that never stops is not listened to for a moment.
  bool counted[kDevicesMax] = {};              // Takes part in the arbitration of that device.
  std::uint64_t seen_dirty[kDevicesMax] = {};  // Of the ledger's dirty bytes: what was acted upon.

 private:
  BrokerTenant() = default;
  static std::unique_ptr<BrokerTenant> make(const std::string& name, int ledger_fd, std::uint64_t now);
  [[nodiscard]] std::uint32_t slot_of(const ProcessIdentity& process) const;
  std::uint64_t left_behind(std::uint32_t slot, std::uint32_t device, const ProcessIdentity& process);
  std::string name_;
  TenantLimits limits_;
  ControlRegion* control_ = nullptr;
  LedgerRegion* ledger_ = nullptr;
  int control_fd_ = -1;
  int ledger_fd_ = -1;
  int bell_ = -1;
};

}  // namespace tranche::guard
