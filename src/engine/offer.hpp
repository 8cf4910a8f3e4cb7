// SPDX-License-Identifier: Apache-2.0
#pragma once
// The seam between the exchange and the calendar: may this much of a device be offered in this window?
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

struct Offer {
  PartyId owner{};
  DeviceId device{};
  std::uint32_t quantity = 0;  // Thousandths.
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
  Isolation isolation = Isolation::kSoft;
  std::string shape{};                  // A partition, of which the quantity is one.
  std::optional<std::uint8_t> start{};  // Of the partition, where that is settled.
};

// A device as the exchange knows it. One that the platform runs needs nobody's word: its owner is its node's,
// and it passed its test or not. What is simulated, and what a peer runs, is certified by the operator.
[[nodiscard]] std::optional<Certified> certified_as(const State&, DeviceId);

// Where on the device, or why not. Asks for certification, ownership, that no other piece offers it already,
// and that the calendar has it free for all of the window.
[[nodiscard]] Result<Slice, wire::Refusal> place_offer(const State&, Instant now, const Offer&);

// Where a model is offered instead of a device: the first of the owner's that could be offered like this, on
// the node where one is named. Where none could, the first at all, so that it can be said why not; zero: he
// has none.
[[nodiscard]] DeviceId device_to_offer(const State&, const ListCapacity&, NodeId node);

}  // namespace tranche::engine
