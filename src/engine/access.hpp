// SPDX-License-Identifier: Apache-2.0
#pragma once
// Access: may this actor do this to something at that node of the tree, and may he know that it exists?
#include <cstdint>
#include <optional>

#include "base/envelope.hpp"
#include "base/ids.hpp"
#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

using wire::Reason;
using wire::Refusal;

enum class Action : std::uint8_t {
  kViewParty,
  kViewJob,
  kViewAudit,
  kViewBilling,
  kSubmitJob,
  kStopJob,
  kManageParty,  // Create, rename, disable what is below.
  kGrantRole,
  kSetQuota,
  kSetRules,
  kIssueToken,
  kManageCapacity,
  kManagePlatform,
  kCorrectInvoices,  // Held at the platform: nobody takes back what he was billed himself.
};
constexpr std::size_t kActions = 14;

struct Actor {
  PartyId party{};
  Scope scope = Scope::kAdmin;  // Of the token shown: narrows what the party may do.
};

// The actor of an envelope; nullopt when the token was revoked or has run out, or its party is disabled.
[[nodiscard]] std::optional<Actor> actor_of(const State&, const Envelope&);

[[nodiscard]] bool role_allows(Role, Action);
[[nodiscard]] bool may(const State&, const Actor&, Action, PartyId at);

// A party is visible to those who may view it, to itself, and to everyone below it.
[[nodiscard]] bool can_see(const State&, const Actor&, PartyId);
[[nodiscard]] bool can_see(const State&, const Actor&, const Job&);
[[nodiscard]] bool can_see(const State&, const Actor&, const Booking&);

// Nothing when allowed; kNotFound when the actor may not even know of it, otherwise kForbidden.
[[nodiscard]] std::optional<Refusal> check_access(const State&, const Actor&, Action, PartyId at);

// Why the actor may not do this with the job, which may be none.
[[nodiscard]] std::optional<Refusal> job_change_problem(const State&,
                                                        const Actor&,
                                                        const Job*,
                                                        const std::string& verb);

[[nodiscard]] Refusal not_found();

}  // namespace tranche::engine
