// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the rules of the tree say of trades: with whom, and where capacity may be bought, which is where data
// may go. Rules that bind a workload bind what is bought for it.
#include <optional>

#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

// Whether any rule above the party speaks of trades: most say nothing, and need no closer look.
[[nodiscard]] bool has_trade_rules(const State&, PartyId);
// Orders of the party, and of all below it, that rest: its rules may have changed whom they may meet.
void restrict_resting(State&, PartyId);
// Whether the rules above one party let it trade with the other.
[[nodiscard]] bool may_trade_with(const State&, PartyId party, PartyId other, WorkloadKind);
// Why the party may not buy in a region.
[[nodiscard]] std::optional<Refusal> region_problem(const State&,
                                                    PartyId,
                                                    WorkloadKind,
                                                    const std::string& region);

}  // namespace tranche::engine
