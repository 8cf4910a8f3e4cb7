// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is set up on devices for a lease and taken down after it: the hardware partition it was granted, the
// vendor's daemon through which jobs of one tenant share a device, the mode of the device that this needs.
// What cannot be taken down is kept in mind, and tried again.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gpu/port.hpp"

namespace tranche::agent {

struct SharingRules {
  bool daemons =
      false;  // Slices of the soft class share through the vendor's daemon where the vendor has one.
  gpu::TimeSlice time_slice = gpu::TimeSlice::kDefault;  // Of those that take turns.
  bool exclusive = false;                                // Dedicated devices take one process at a time.
};

struct SharedDevice {  // Of one slice of a lease, in its order.
  gpu::DevicePort* port = nullptr;
  wire::DeviceFacts facts{};
};

// What the job sees instead of the device as it is.
struct SliceView {
  std::string partition{};      // Its name; empty: the device itself.
  std::string daemon_folder{};  // Where it finds the sharing daemon; empty: there is none.
};

struct StuckShare {
  std::string uuid{};  // Of the device.
  std::string why{};
};

class DeviceShares {
 public:
  explicit DeviceShares(const SharingRules& rules) : rules_(rules) {}

  // Throws std::runtime_error with the reason. What was done until then is written down in `folder`, as is
  // everything later, and take_down undoes it.
  void set_up(const wire::LeaseGrant& grant,
              const std::vector<SharedDevice>& devices,
              const std::filesystem::path& folder);
  // Goes on with what an agent before this one set up.
  void adopt(const wire::LeaseGrant& grant,
             const std::vector<SharedDevice>& devices,
             const std::filesystem::path& folder);
  // Empty: nothing of the lease is left on any device.
  [[nodiscard]] std::vector<StuckShare> take_down(LeaseId lease);
  void forget(LeaseId lease) { leases_.erase(lease); }
  [[nodiscard]] SliceView view(LeaseId lease, std::size_t slice) const;

 private:
  struct Share {
    gpu::DevicePort* port = nullptr;
    std::string device{};
    PartyId tenant{};
    SliceView view{};
    bool turns = false;      // Its time slice was set.
    bool exclusive = false;  // It takes one process at a time.
  };
  void make_partition(Share& share, const wire::SliceGrant& slice);
  void clear_leftovers(gpu::DevicePort& port, const std::string& device);
  void set_mode(const SharedDevice& device, wire::DeviceMode mode);
  void write_down(LeaseId lease, const std::filesystem::path& folder) const;
  [[nodiscard]] std::string end(Share& share);  // Why not; empty: done.
  [[nodiscard]] bool in_use(const std::string& partition) const;
  [[nodiscard]] bool daemon_used_by_others(LeaseId lease, const Share& share) const;
  [[nodiscard]] bool turns_used_by_others(LeaseId lease, const Share& share) const;

  SharingRules rules_;
  std::map<std::string, wire::DeviceMode> modes_;  // As we left them.
  std::map<LeaseId, std::vector<Share>> leases_;   // By slice.
};

}  // namespace tranche::agent
