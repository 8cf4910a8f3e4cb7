// SPDX-License-Identifier: Apache-2.0
#pragma once
// The seam between the exchange and the calendar: may this much of a device be offered in this window?
#include <cstdint>
#include <optional>

#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

struct Offer {
  PartyId owner{};
  DeviceId device{};
  std::uint32_t quantity = 0;  // Thousandths.
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
};

// Why not; nothing: it may. Asks for certification, ownership, and that no other piece offers it already.
// Where a calendar of claims is kept, its answer is added here and nowhere else.
[[nodiscard]] std::optional<wire::Refusal> offer_problem(const State&, const Offer&);

}  // namespace tranche::engine
