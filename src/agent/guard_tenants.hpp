// SPDX-License-Identifier: Apache-2.0
#pragma once
// One tenant at the node's broker for each lease with devices: its limits, its socket, its account.
#include <filesystem>
#include <map>
#include <memory>
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

 private:
  guard::BrokerClient& broker();
  std::filesystem::path folder_;
  std::string program_;
  std::unique_ptr<guard::BrokerClient> broker_;
  std::map<LeaseId, std::unique_ptr<guard::TenantRegions>> regions_;
};

}  // namespace tranche::agent
