// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far the tests of a node's devices are. Only worth knowing now: it is kept by nobody, and stands in no
// journal. A node says it as a piece of its own log, outside of any lease, which servers that do not know it
// pass over.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/receipt.hpp"
#include "wire/states.hpp"

namespace tranche::wire {

struct TestProgress {
  std::uint64_t order = 0;
  std::uint32_t percent = 0;
  std::string part{};  // memory.random; empty: others of the node are tested first.
  bool operator==(const TestProgress&) const = default;
};
BOOST_DESCRIBE_STRUCT(TestProgress, (), (order, percent, part))

struct TestsUnderWay {
  std::vector<TestProgress> items{};
  bool operator==(const TestsUnderWay&) const = default;
};
BOOST_DESCRIBE_STRUCT(TestsUnderWay, (), (items))

// What the API says of it, and of the last test of each device.
struct DeviceTestView {
  DeviceId device{};
  DeviceState state = DeviceState::kNew;
  bool testing = false;  // Ordered, and not answered yet.
  TestLevel level = TestLevel::kQuick;
  std::uint32_t percent = 0;
  std::string part{};
  std::optional<AcceptanceReceipt> last_test{};
};
BOOST_DESCRIBE_STRUCT(DeviceTestView, (), (device, state, testing, level, percent, part, last_test))

struct NodeTestView {
  std::string node{};
  bool connected = false;
  std::vector<DeviceTestView> items{};
};
BOOST_DESCRIBE_STRUCT(NodeTestView, (), (node, connected, items))

}  // namespace tranche::wire
