// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the server asks of a node for one of its devices, outside of any lease, and how that went.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>

#include "base/ids.hpp"
#include "wire/receipt.hpp"

namespace tranche::wire {

// What a device without a tenant needs. Sent again after a break of the link until its answer came.
// Accept: wipe, read back, and test. Wipe: what a tenant of the whole device left behind.
enum class DeviceTask : std::uint8_t {
  kTest,
  kAccept,
  kReset,
  kWipe,    // What a lease of the whole device left.
  kSettle,  // What leases of parts of it still owe, while others of their tenant go on.
};
BOOST_DESCRIBE_ENUM(DeviceTask, kTest, kAccept, kReset, kWipe, kSettle)

struct DeviceOrder {
  std::uint64_t order = 0;
  DeviceId device{};
  std::string uuid{};
  DeviceTask task = DeviceTask::kTest;
  TestLevel level = TestLevel::kQuick;
  LeaseId lease{};   // Of a wipe: whose leftovers; the receipt names it.
  PartyId tenant{};  // Of that lease.
  bool operator==(const DeviceOrder&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceOrder, (), (order, device, uuid, task, level, lease, tenant))

struct DeviceOutcome {  // Beside the receipts of what was done.
  std::uint64_t order = 0;
  DeviceId device{};
  DeviceTask task = DeviceTask::kTest;
  bool done = false;
  std::string message{};  // Why not.
  bool operator==(const DeviceOutcome&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceOutcome, (), (order, device, task, done, message))

}  // namespace tranche::wire
