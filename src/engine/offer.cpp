// SPDX-License-Identifier: Apache-2.0
#include "engine/offer.hpp"

#include <algorithm>
#include <set>

#include "engine/access.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_portion.hpp"
#include "engine/price.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kWholeDevice = 1000;

bool is_partition(const State& state, const Piece& piece) {
  return piece.book <= state.market.instruments.size() &&
         !state.market.instruments[piece.book - 1].instrument.shape.empty();
}

// The most that pieces of the device offer at once in any slot of the window. Of partitions on a device that
// the platform runs, the calendar knows.
std::int64_t offered(const State& state, const Offer& offer) {
  const auto pieces = state.market.pieces_of.find(offer.device);
  if (pieces == state.market.pieces_of.end()) return 0;
  std::vector<std::int64_t> by_slot(offer.slots, 0);
  for (const PieceId id : pieces->second) {
    const Piece* piece = state.market.pieces.find(id.value);
    if (piece == nullptr || (state.device(offer.device) != nullptr && is_partition(state, *piece))) continue;
    const std::int64_t first = std::max(piece->first_slot, offer.first_slot);
    const std::int64_t end = std::min(piece->first_slot + piece->slots, offer.first_slot + offer.slots);
    for (std::int64_t slot = first; slot < end; ++slot)
      by_slot[static_cast<std::size_t>(slot - offer.first_slot)] +=
          piece->promised[static_cast<std::size_t>(slot - piece->first_slot)];
  }
  return by_slot.empty() ? 0 : *std::max_element(by_slot.begin(), by_slot.end());
}

// Everybody is below the platform, and its devices are not theirs.
bool may_offer(const State& state, PartyId seller, const Certified& device) {
  return is_at_or_below(state, seller, device.owner) &&
         tenant_of(state, seller) == tenant_of(state, device.owner);
}

bool is_own_simulated(const State& state, const Offer& offer) {
  const Device* device = state.device(offer.device);
  if (device == nullptr) return false;
  const Node& node = state.nodes.at(device->node);
  return node.simulated && may_offer(state, offer.owner, Certified{.owner = node.owner});
}

}  // namespace

std::optional<Certified> certified_as(const State& state, DeviceId id) {
  const Device* device = state.device(id);
  const auto said = state.market.certified.find(id);
  if (device == nullptr)
    return said == state.market.certified.end() ? std::nullopt : std::optional(said->second);
  const Node& node = state.nodes.at(device->node);
  const bool passed = device->record.tested && is_in_service(device->state);
  if (said != state.market.certified.end()) {
    Certified known = said->second;
    known.node = node.id;
    known.accepted = known.accepted && passed;
    return known;
  }
  if (node.simulated) return std::nullopt;
  return Certified{.device = id,
                   .node = node.id,
                   .owner = node.owner == PartyId{} ? kPlatform : node.owner,
                   .model = device->facts.model,
                   .region = node.site,
                   .accepted = passed};
}

Result<Slice, Refusal> place_offer(const State& state, Instant now, const Offer& offer) {
  const auto found = certified_as(state, offer.device);
  if (!found && is_own_simulated(state, offer)) {
    return refuse(Refusal{.reason = Reason::kPolicy,
                          .rule = "acceptance",
                          .message = text(offer.device) + " is simulated, and was not certified",
                          .fix = "ask the operator: tranche market certify " + text(offer.device)});
  }
  if (!found || !may_offer(state, offer.owner, *found)) return refuse(not_found());
  if (!found->accepted) {
    return refuse(Refusal{.reason = Reason::kPolicy,
                          .rule = "acceptance",
                          .message = text(offer.device) + " has not passed its acceptance test, or is out of "
                                                          "service",
                          .fix = "wait for the test (tranche health), or offer another device"});
  }
  if (state.device(offer.device) != nullptr && !offer.shape.empty())
    return place_on_calendar(state, now, offer);
  const std::int64_t taken = offered(state, offer);
  if (taken + offer.quantity <= kWholeDevice) return place_on_calendar(state, now, offer);
  return refuse(Refusal{
      .reason = Reason::kConflict,
      .rule = "calendar",
      .message = taken == 0 ? "an offer is of one device, " + text(offer.device) + ", or a part of it"
                            : text(offer.device) + " is offered or sold already during that window",
      .fix =
          taken < kWholeDevice
              ? "offer at most " + portion_text(static_cast<std::uint64_t>(kWholeDevice - taken)) + " of it"
              : "choose another window or device",
      .limit = kWholeDevice,
      .used = taken,
      .asked = offer.quantity});
}

DeviceId device_to_offer(const State& state, const ListCapacity& wanted, NodeId node) {
  const std::int64_t first = wanted.first_slot == 0 ? slot_of(state.now) : wanted.first_slot;
  std::set<DeviceId> known;
  for (const auto& [id, certified] : state.market.certified) known.insert(id);
  for (const auto& [id, device] : state.devices) known.insert(id);
  DeviceId any{};
  for (const DeviceId id : known) {
    const auto certified = certified_as(state, id);
    const bool meant = certified && is_model(certified->model, wanted.instrument.model) &&
                       may_offer(state, wanted.owner, *certified) &&
                       (node == NodeId{} || certified->node == node) &&
                       (wanted.instrument.region.empty() || certified->region == wanted.instrument.region);
    if (!meant) continue;
    if (any == DeviceId{}) any = id;
    const Offer offer{wanted.owner,
                      id,
                      wanted.quantity,
                      first,
                      wanted.slots,
                      wanted.instrument.isolation,
                      wanted.instrument.shape};
    if (place_offer(state, state.now, offer)) return id;
  }
  return any;
}

}  // namespace tranche::engine
