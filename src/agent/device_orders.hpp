// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the server wants done with a device that nobody is on: tested, wiped and tested, reset. Tests run in a
// process of their own, so that a driver that crashes or hangs takes nothing with it.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wire/agent_message.hpp"
#include "wire/test_progress.hpp"

namespace tranche::agent {

struct DeviceOrdersOptions {
  std::string program{};         // This binary.
  std::string scratch{};         // Folder for reports.
  std::function<void()> ring{};  // From any thread: an answer is there.
};

class DeviceOrders {
 public:
  explicit DeviceOrders(DeviceOrdersOptions options);
  ~DeviceOrders();  // What runs is left to end by itself; nobody hears of it.
  DeviceOrders(const DeviceOrders&) = delete;
  DeviceOrders& operator=(const DeviceOrders&) = delete;

  // An order that is under way already is not begun again.
  void begin(const wire::DeviceOrder& order, const wire::DeviceFacts& device);
  [[nodiscard]] std::vector<wire::Receipts> take_answers();
  // How far the one that runs is, and those that wait for it.
  [[nodiscard]] wire::TestsUnderWay progress() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tranche::agent
