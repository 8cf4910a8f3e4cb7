// SPDX-License-Identifier: Apache-2.0
#pragma once
// One tenant at the node's broker for each lease with devices: its limits, its socket, its account.
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/meter.hpp"
#include "guard/broker_client.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

class GuardTenants {
 public:
  // `program`: this binary, which also serves as the broker. The broker outlives the agent.
  GuardTenants(std::filesystem::path folder, std::string program);

  // The socket that the sandbox shows. Throws std::runtime_error when no broker can be had.
  std::string open(const wire::LeaseGrant& grant, const std::vector<std::uint32_t>& physical);
  void change(const wire::LeaseGrant& grant, const std::vector<std::uint32_t>& physical, bool paused);
  void close(LeaseId lease);
  // As the account stands; zeros for a lease that has none.
  [[nodiscard]] std::vector<DeviceReading> read(const wire::LeaseGrant& grant) const;
  [[nodiscard]] std::vector<wire::LimitReceipt> limits(const wire::LeaseGrant& grant,
                                                       Instant from,
                                                       Instant to) const;
  [[nodiscard]] std::vector<wire::SliceSample> samples(const wire::LeaseGrant& grant) const;
  void scrubbed(std::uint32_t physical);
  // A broker that died is replaced, and the new one goes on with every account. True: it was.
  bool keep();

  // One slice of a lease, to be compared with what the device says.
  struct Account {
    std::uint64_t vram_limit = 0, vram_counted = 0;
    std::uint64_t counted_ns = 0, submitted_ns = 0, measured_ns = 0;
    std::uint64_t number = 0;  // Another one: a new account.
    Duration since_launch{};
    bool neighbours = false;
  };
  [[nodiscard]] std::vector<Account> accounts(const wire::LeaseGrant& grant) const;
  // Processes of the lease in which the guard spoke to the broker, by the node's numbers.
  [[nodiscard]] std::set<std::int32_t> joined(LeaseId lease);
  [[nodiscard]] bool has(LeaseId lease) const { return regions_.contains(lease); }
  [[nodiscard]] std::string socket() const { return (folder_ / "broker.sock").string(); }

 private:
  guard::BrokerClient& broker();
  std::filesystem::path folder_;
  std::string program_;
  std::unique_ptr<guard::BrokerClient> broker_;
  struct Regions {
    std::unique_ptr<guard::TenantRegions> mapped{};
    guard::TenantLimits limits{};
    std::uint64_t number = 0;
  };
  [[nodiscard]] std::string socket_of(LeaseId lease) const;
  std::map<LeaseId, Regions> regions_;
  std::uint64_t regions_made_ = 0;
  bool replaced_ = false;
};

}  // namespace tranche::agent
