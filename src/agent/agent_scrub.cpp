// SPDX-License-Identifier: Apache-2.0
// What is wiped after a lease, and the receipt for it.
#include "agent/agent_send.hpp"

namespace tranche::agent {

std::vector<wire::ScrubReceipt> Agent::scrub(Job& job) {
  std::vector<wire::ScrubReceipt> receipts;
  const LeasePage& page = job.folder.page();
  const wire::LeaseGrant& grant = job.folder.grant;
  for (std::size_t i = 0; i < grant.slices.size(); ++i) {
    const wire::SliceGrant& slice = grant.slices[i];
    wire::ScrubReceipt receipt{
        .device = slice.device, .lease = grant.lease, .tenant = grant.tenant, .at = wall_time()};
    receipt.processes_ended = page.processes_ended;
    receipt.scratch_wiped = page.scratch_wiped != 0;
    if (options_.simulated) {
      receipt.zeroed = receipt.verified = slice.vram;
      receipt.method = "SIMULATED";
    } else if (scrubber_) {
      scrubber_->scrub(devices_[job.physical[i]].facts, slice.vram, receipt);
      if (wire::is_clean(receipt) && guard_ && home_->has_guard()) guard_->scrubbed(job.physical[i]);
    } else {
      receipt.method = "none: this node cannot wipe device memory";
    }
    receipts.push_back(std::move(receipt));
  }
  return receipts;
}

}  // namespace tranche::agent
