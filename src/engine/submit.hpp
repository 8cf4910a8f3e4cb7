// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a submission becomes: whoever submits, by hand or by the calendar, is judged alike.
#include "engine/decide.hpp"

namespace tranche::engine {

// The job, and the group of its units, if it is admitted. Whom it is for is said apart; `after` is not looked
// at.
[[nodiscard]] Decision submission_events(const State&, const Envelope&, PartyId owner, const SubmitJob&);

// The same, asked for by somebody: also whether he may, and whether what he asks for makes sense.
[[nodiscard]] Decision submission(
    const State&, const Envelope&, const Actor&, PartyId owner, const SubmitJob&);

}  // namespace tranche::engine
