// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the engine knows, as the API shows it.
#include <optional>

#include "engine/job.hpp"
#include "engine/state.hpp"
#include "wire/api_job.hpp"
#include "wire/api_party.hpp"

namespace tranche::api {

[[nodiscard]] wire::PartyView view_of(const engine::State&, const engine::Party&);
[[nodiscard]] wire::TokenView view_of(const engine::State&, const engine::Token&);
[[nodiscard]] wire::JobView view_of(const engine::State&, const engine::Job&, std::string owner_path);
[[nodiscard]] wire::JobDetail detail_of(const engine::State&, const engine::Job&);
[[nodiscard]] wire::QuotaView quota_view(const engine::State&, const engine::Party&);
[[nodiscard]] wire::RulesView rules_view(const engine::State&, const engine::Party&);

}  // namespace tranche::api
