// SPDX-License-Identifier: Apache-2.0
#pragma once
// Wipes through OpenCL, which reaches any vendor's device: what the slice may hold is taken, zeroed and read
// back.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "agent/scrubber.hpp"
#include "gpu/device_session.hpp"

namespace tranche::agent {

class OpenClScrubber : public Scrubber {
 public:
  void scrub(const wire::DeviceFacts& device, Bytes slice, wire::ScrubReceipt& receipt) override;
  void stop() override { stopping_ = true; }
  void release(const std::string& uuid) override;
  [[nodiscard]] std::size_t open_devices();
  std::optional<wire::AcceptanceReceipt> test(const wire::DeviceFacts& device, Bytes slice) override;

 private:
  gpu::DeviceSession& session_for(const wire::DeviceFacts& device);
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<gpu::DeviceSession>> sessions_;  // By uuid: kernels are built once.
};

}  // namespace tranche::agent
