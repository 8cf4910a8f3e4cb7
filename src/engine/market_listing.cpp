// SPDX-License-Identifier: Apache-2.0
// What can be offered: certified devices, pieces of them, parts of what was bought; and the exchange's rules.
#include <algorithm>

#include "engine/decide.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/market_portion.hpp"
#include "engine/model_names.hpp"
#include "engine/offer.hpp"
#include "engine/refusals.hpp"
#include "engine/resale.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

constexpr std::uint32_t kSlotsMost = 96 * 366;
constexpr std::size_t kAudienceMost = 256;

}  // namespace

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetMarketRules& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  const MarketRules& rules = command.rules;
  const bool sane = rules.fee_bps <= 5'000 && rules.bond_bps <= 10'000 && rules.penalty_bps <= 10'000 &&
                    rules.collar_percent <= 10'000 && rules.dispute >= Duration{} &&
                    rules.dispute <= std::chrono::hours(24 * 90) && rules.horizon >= std::chrono::hours(1) &&
                    rules.horizon <= std::chrono::hours(24 * 366);
  if (!sane) {
    return refuse(invalid("market rules",
                          "a rule of the exchange is out of bounds",
                          "a fee is at most 50 %, a bond and a penalty at most 100 %, the dispute window at "
                          "most 90 days, the horizon an hour to a year"));
  }
  return Events{MarketRulesSet{state.market.rules, rules}};
}

void apply(State& state, const Envelope&, const MarketRulesSet& event) {
  state.market.rules = event.after;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const CertifyCapacity& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  const Certified& device = command.device;
  if (state.party(device.owner) == nullptr) return refuse(not_found());
  if (device.device == DeviceId{} || device.model.empty() || device.model.size() > 63)
    return refuse(invalid("device", "a device has an id and a model", "name both"));
  if (auto r = certified_model_problem(state, device.device, device.model)) return refuse(*r);
  return Events{CapacityCertified{device.owner, device}};
}

void apply(State& state, const Envelope&, const CapacityCertified& event) {
  state.market.certified.insert_or_assign(event.device.device, event.device);
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const ListCapacity& command) {
  if (command.first_slot == 0) return decide(state, envelope, actor, from_now_on(command, envelope.at));
  const Action action = right_to_sell(command.bought);
  if (auto r = check_access(state, actor, action, command.owner)) return refuse(*r);
  if (command.quantity == 0 || command.slots == 0)
    return refuse(invalid("window", "an offer has a quantity and a window", "give both"));
  if (command.slots > kSlotsMost)
    return refuse(
        invalid("window", "an offer is for a year at most", "give a shorter window, or sell again: --every"));
  if (command.audience.parties.size() > kAudienceMost)
    return refuse(invalid("audience", "an offer names 256 others at most", "name a party above them"));
  Instrument instrument = command.instrument;
  Piece piece{.id = {state.market.next_piece},
              .owner = command.owner,
              .device = command.device,
              .bought = command.bought,
              .first_slot = command.first_slot,
              .slots = command.slots,
              .quantity = command.quantity,
              .audience = command.audience};
  if (command.bought != ContractId{}) {
    const Resale resale{command.owner, command.bought, command.quantity, command.first_slot, command.slots};
    if (auto r = resale_problem(state, resale)) return refuse(*r);
    const Contract& contract = *state.market.contracts.find(command.bought.value);
    if (auto r = resale_sharing_problem(state, contract, command.quantity)) return refuse(*r);
    piece.book = contract.book;
    instrument = state.market.instruments[contract.book - 1].instrument;
  } else {
    const Offer offer{command.owner,
                      command.device,
                      command.quantity,
                      command.first_slot,
                      command.slots,
                      instrument.isolation,
                      instrument.shape};
    const auto place = place_offer(state, envelope.at, offer);
    if (!place) return refuse(place.error());
    piece.start = place->start;
    const Certified device = *certified_as(state, command.device);
    piece.node = device.node;
    instrument.model = device.model;
    instrument.region = device.region;
  }
  const auto known = state.market.by_instrument.find(instrument);
  piece.book =
      known == state.market.by_instrument.end() ? state.market.instruments.size() + 1 : known->second;
  piece.promised.assign(piece.slots, 0);
  Events events;
  if (known == state.market.by_instrument.end()) events.emplace_back(BookOpened{piece.book, instrument});
  events.emplace_back(CapacityListed{piece.owner, piece});
  const PlaceOrder ask{.party = command.owner,
                       .book = piece.book,
                       .side = Side::kSell,
                       .price = command.price,
                       .first_slot = command.first_slot,
                       .slots = command.slots,
                       .quantity = command.quantity,
                       .quantity_min = command.quantity_min,
                       .slots_min = command.slots_min,
                       .piece = piece.id,
                       .floor = command.floor};
  if (auto r = append_order(state, ask, &piece, envelope.at, events)) return refuse(*r);
  append_claims(state, envelope.at, events);
  return events;
}

void apply(State& state, const Envelope&, const CapacityListed& event) {
  state.market.next_piece = event.piece.id.value + 1;
  note_piece(state.market, state.market.pieces.insert(event.piece.id.value, event.piece));
}

}  // namespace tranche::engine
