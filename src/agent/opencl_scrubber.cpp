// SPDX-License-Identifier: Apache-2.0
#include "agent/opencl_scrubber.hpp"

#include "agent/host_time.hpp"
#include "gpu/device_identity.hpp"
#include "gpu/device_tests.hpp"
#include "gpu/scrub.hpp"

namespace tranche::agent {

gpu::DeviceSession& OpenClScrubber::session_for(const wire::DeviceFacts& device) {
  const std::lock_guard lock(mutex_);  // The session itself is its device's lane's alone.
  const auto known = sessions_.find(device.uuid);
  if (known != sessions_.end()) return *known->second;
  for (const gpu::OpenClDevice& found : gpu::opencl_devices()) {
    const bool same = found.facts.uuid == device.uuid ||
                      (!device.pci_address.empty() && found.facts.pci_address == device.pci_address);
    if (!same) continue;
    auto session = std::make_unique<gpu::DeviceSession>(found);
    session->stop_when(stopping_);
    return *sessions_.emplace(device.uuid, std::move(session)).first->second;
  }
  throw gpu::CannotRun("no OpenCL driver reaches " + device.uuid);
}

// A context does not outlive a reset, nor a fault of its device: every call in it fails from then on. And a
// device on which one is open is not reset by its driver.
void OpenClScrubber::release(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(uuid);
}

std::size_t OpenClScrubber::open_devices() {
  const std::lock_guard lock(mutex_);
  return sessions_.size();
}

void OpenClScrubber::scrub(const wire::DeviceFacts& device, Bytes slice, wire::ScrubReceipt& receipt) {
  try {
    gpu::DeviceSession& session = session_for(device);
    const std::int64_t enough = gpu::enough_to_wipe(session.device(), slice.count);
    const auto memory = gpu::take_free_memory(session, enough);
    if (memory.empty()) throw gpu::CannotRun("the device gave no memory to wipe");
    const wire::ScrubReceipt numbers = gpu::receipt_of(gpu::zero_and_verify(session, memory));
    receipt.took = numbers.took;
    receipt.zeroed = numbers.zeroed;
    receipt.verified = numbers.verified;
    receipt.nonzero_bytes = numbers.nonzero_bytes;
    receipt.method = numbers.method;
    receipt.method += gpu::why_a_part(session.device(), slice.count);
  } catch (const std::exception& problem) {
    receipt.method = std::string("none: ") + problem.what();
    release(device.uuid);
  }
}

std::optional<wire::AcceptanceReceipt> OpenClScrubber::test(const wire::DeviceFacts& device, Bytes slice) {
  try {
    return gpu::test_between_leases(session_for(device), slice.count);
  } catch (const std::exception& problem) {
    wire::AcceptanceReceipt receipt{.level = wire::TestLevel::kQuick, .at = wall_time()};
    receipt.tests.push_back({.name = "device", .verdict = wire::Verdict::kUnknown, .detail = problem.what()});
    release(device.uuid);
    return receipt;
  }
}

}  // namespace tranche::agent
