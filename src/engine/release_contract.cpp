// SPDX-License-Identifier: Apache-2.0
// A buyer needs no more of what he bought: nothing is given back, so the contract is delivered and settled at
// once, and its seller has the capacity for something else.
#include <algorithm>

#include "base/text.hpp"
#include "engine/booking_limits.hpp"
#include "engine/contract_terms.hpp"
#include "engine/decide.hpp"
#include "engine/market_claims.hpp"

namespace tranche::engine {
namespace {

Refusal conflict(std::string message, std::string fix) {
  return {
      .reason = Reason::kConflict, .rule = "contract", .message = std::move(message), .fix = std::move(fix)};
}

const Job* job_inside(const State& state, ContractId contract) {
  const Booking* claim = state.booking(state.index.calendar->claim_of(contract));
  if (claim == nullptr) return nullptr;
  for (const LeaseId id : leases_in(state, *claim))
    if (state.leases.at(id).live()) return state.job(state.leases.at(id).job);
  return nullptr;
}

bool is_offered_again(const State& state, ContractId contract, Instant now) {
  for (const std::uint64_t id : state.market.pieces.ids()) {
    const Piece& piece = *state.market.pieces.find(id);
    const auto& promised = piece.promised;
    const auto past = std::clamp<std::int64_t>(
        slot_of(now) - piece.first_slot, 0, static_cast<std::int64_t>(promised.size()));
    if (piece.bought == contract &&
        std::any_of(promised.begin() + past, promised.end(), [](auto one) { return one > 0; }))
      return true;
  }
  return false;
}

// Given back, it would fall to the owner of the device, and not to who sold it on.
bool is_bought_second_hand(const State& state, const Contract& contract) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  return piece != nullptr && piece->bought != ContractId{};
}

std::optional<Refusal> release_problem(const State& state, const Contract& contract, Instant now) {
  const std::string name = id_text("ctr_", contract.id.value);
  if (contract.state != ContractState::kAgreed || now >= contract.end)
    return conflict(name + " is interrupted or over", "tranche market contracts shows its state");
  if (now < contract.start)
    return conflict(name + " has not begun, and nothing of its price comes back",
                    "sell it on: tranche market sell " + name + " --for 2h --price 1.90/h");
  if (is_bought_second_hand(state, contract))
    return conflict(name + " was bought from somebody who had bought it himself",
                    "let it run to its end, or sell it on: tranche market sell " + name);
  if (is_offered_again(state, contract.id, now))
    return conflict("a part of " + name + " was offered or sold on", "let it run to its end");
  if (const Job* job = job_inside(state, contract.id))
    return conflict(text(job->id) + " runs in it", "wait for it, or stop it: tranche stop " + text(job->id));
  return std::nullopt;
}

}  // namespace

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const ReleaseContract& command) {
  const Contract* contract = state.market.contracts.find(command.contract.value);
  if (contract == nullptr || !may(state, actor, Action::kSubmitJob, contract->buyer))
    return refuse(not_found());
  if (auto refusal = release_problem(state, *contract, envelope.at)) return refuse(*refusal);
  Events events{settle(state, *contract, contract->end, false)};
  append_claim_end(state, contract->id, events);
  return events;
}

}  // namespace tranche::engine
