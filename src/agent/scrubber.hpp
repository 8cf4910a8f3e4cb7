// SPDX-License-Identifier: Apache-2.0
#pragma once
// Wipes the memory of a device between two tenants, and proves it.
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "wire/agent_message.hpp"
#include "wire/receipt.hpp"

namespace tranche::agent {

class Scrubber {
 public:
  virtual ~Scrubber() = default;
  // What is under way ends soon, undone: it is begun anew by the next agent.
  virtual void stop() {}
  // The device is about to be reset: whatever is held open there is closed. Called in the device's turn, as
  // wipes are; the next one opens it anew.
  virtual void release(const std::string& /*uuid*/) {}
  // Fills in what was zeroed, what was read back, what was found, how long it took, and by which method.
  // Called for different devices at the same time. Never throws: what could not be done leaves a receipt that
  // is not clean and says why.
  virtual void scrub(const wire::DeviceFacts& device, Bytes slice, wire::ScrubReceipt& receipt) = 0;
  // The quick level of the device's tests, within milliseconds, before the wipe that removes its patterns.
  // As scrub; nothing: none was made.
  virtual std::optional<wire::AcceptanceReceipt> test(const wire::DeviceFacts&, Bytes /*slice*/) {
    return std::nullopt;
  }
};

}  // namespace tranche::agent
