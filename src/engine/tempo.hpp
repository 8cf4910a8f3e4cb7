// SPDX-License-Identifier: Apache-2.0
#pragma once
// Does work come and go, or does it stay? Kept apart on a device: beside work that stays, short work frees
// nothing when it ends.
#include "engine/state.hpp"

namespace tranche::engine {

enum class Tempo : std::uint8_t { kEither, kShort, kLong };

// By how long such work usually takes, or its time limit where that is less or nothing is known yet.
[[nodiscard]] Tempo tempo_of(const State&, const Job&);
// Whether work of the other tempo is on the device.
[[nodiscard]] bool clashes(const State&, Tempo, DeviceId);

}  // namespace tranche::engine
