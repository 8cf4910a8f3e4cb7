// SPDX-License-Identifier: Apache-2.0
#pragma once
// Elastic gangs: when one that runs may be started again with another number of members for its own good.
#include "engine/state.hpp"

namespace tranche::engine {

// All of it runs, nobody has asked it to end, it is in nobody's window, and it can save what it did.
[[nodiscard]] bool may_be_restarted(const State&, const Job&);

// Until when one that was resized waits for what it left to be wiped, so that it does not come back with the
// little that was clean first; `now` or before: it need not wait.
[[nodiscard]] Instant waits_for_wipes_until(const State&, const Job&, Instant now);

}  // namespace tranche::engine
