// SPDX-License-Identifier: Apache-2.0
#include "engine/state.hpp"

namespace tranche::engine {
namespace {

template <class Map, class Key>
auto find_in(const Map& map, const Key& key) -> const typename Map::mapped_type* {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

State::State() = default;
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;
State::~State() = default;

Party& State::add_party(Party party) {
  const PartyId id = party.id;
  Party& kept = parties.emplace(id, std::move(party)).first->second;
  if (index.parties.size() <= number_of(id)) index.parties.resize(number_of(id) + 1);
  index.parties[number_of(id)] = &kept;
  return kept;
}

const Job* State::job(JobId id) const {
  return find_in(jobs, id);
}

const Token* State::token(TokenId id) const {
  return find_in(tokens, id);
}

const Node* State::node(NodeId id) const {
  return find_in(nodes, id);
}

const Device* State::device(DeviceId id) const {
  return find_in(devices, id);
}

const Lease* State::lease(LeaseId id) const {
  return find_in(leases, id);
}

const Booking* State::booking(ClaimId id) const {
  return find_in(bookings, id);
}

PartyId State::child(PartyId parent, std::string_view name) const {
  const PartyId* id = find_in(index.by_name, std::pair{parent, std::string(name)});
  return id == nullptr ? PartyId{} : *id;
}

std::string path_of(const State& state, PartyId id) {
  if (id == kPlatform) return "platform";
  std::string path;
  for (const Party* at = state.party(id); at != nullptr && at->id != kPlatform;
       at = state.party(at->parent)) {
    path = path.empty() ? at->name : at->name + '/' + path;
  }
  return path;
}

PartyId find_path(const State& state, std::string_view text) {
  if (const auto id = parse_party_id(text)) return state.party(*id) != nullptr ? *id : PartyId{};
  PartyId at = kPlatform;
  while (!text.empty()) {
    const auto slash = text.find('/');
    at = state.child(at, text.substr(0, slash));
    if (at == PartyId{} || slash == std::string_view::npos) return at;
    text.remove_prefix(slash + 1);
  }
  return {};
}

PartyId tenant_of(const State& state, PartyId id) {
  for (const Party* at = state.party(id); at != nullptr; at = state.party(at->parent))
    if (at->id.kind() == PartyKind::kTenant) return at->id;
  return kPlatform;
}

bool is_at_or_below(const State& state, PartyId id, PartyId ancestor) {
  for (const Party* at = state.party(id); at != nullptr; at = state.party(at->parent)) {
    if (at->id == ancestor) return true;
  }
  return false;
}

}  // namespace tranche::engine
