// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a name of a device model means anything: a price or a certificate for a misspelt one would hold for
// nothing, and nobody would notice.
#include <optional>
#include <string>

#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

struct UnknownModel {
  std::string message{};  // there is no device model 'H1OO'
  std::string fix{};      // did you mean 'H100'?
  bool misspelt = false;  // It is close to one that is known.
};

// Known are those of devices that are connected or certified, and all of the catalogue.
[[nodiscard]] std::optional<UnknownModel> unknown_model(const State&, const std::string& name);
// Why a device may not be offered under the name of that model.
[[nodiscard]] std::optional<Refusal> certified_model_problem(const State&, DeviceId, const std::string& name);

}  // namespace tranche::engine
