// SPDX-License-Identifier: Apache-2.0
#include "engine/model_names.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "engine/price.hpp"
#include "engine/refusals.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/nearest.hpp"

namespace tranche::engine {
namespace {

bool is_in_catalogue(const std::string& name) {
  const auto models = wire::gpu_catalog();
  return wire::find_gpu_model(name) != nullptr ||
         std::any_of(models.begin(), models.end(), [&](const wire::GpuModel& model) {
           return wire::is_meant_by(model, name, wire::MemoryMatch::kAny);
         });
}

// Of what is here: connected, or certified for the exchange.
std::set<std::string> models_here(const State& state) {
  std::set<std::string> models;
  for (const DeviceKind& kind : state.index.capacity->device_kinds(state)) models.insert(kind.model);
  for (const auto& [id, certified] : state.market.certified) models.insert(certified.model);
  return models;
}

}  // namespace

std::optional<UnknownModel> unknown_model(const State& state, const std::string& name) {
  const std::set<std::string> here = models_here(state);
  const bool known = is_in_catalogue(name) || std::any_of(here.begin(), here.end(), [&](const auto& model) {
                       return is_model(model, name);
                     });
  if (known) return std::nullopt;
  std::vector<std::string_view> names(here.begin(), here.end());
  for (const wire::GpuModel& model : wire::gpu_catalog()) {
    names.push_back(model.short_name);
    names.push_back(model.name);
  }
  const std::string hint = wire::nearest_hint(name, names);
  return UnknownModel{.message = "there is no device model '" + name + "'",
                      .fix = hint.empty() ? "tranche gpus shows what is connected" : hint,
                      .misspelt = !hint.empty()};
}

std::optional<Refusal> certified_model_problem(const State& state, DeviceId id, const std::string& name) {
  const Device* device = state.device(id);
  if (device == nullptr) {  // A peer may have what nobody here has heard of.
    const auto unknown = unknown_model(state, name);
    if (!unknown || !unknown->misspelt) return std::nullopt;
    return invalid("model", unknown->message, unknown->fix);
  }
  // A device that no catalogue has may be traded under a short name, but not as something that it is not.
  const bool other = is_in_catalogue(device->facts.model) || is_in_catalogue(name);
  if (is_model(device->facts.model, name) || !other) return std::nullopt;
  return invalid("model",
                 text(id) + " is of model " + device->facts.model + ", not " + name,
                 "certify it as what it is");
}

}  // namespace tranche::engine
