// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text for Prometheus: devices under the names that DCGM's exporter gave them, so that existing boards work,
// and everything else as tranche_*. What is simulated has an address and names of its own (sim_…), so that no
// board and no rule takes it for real.
#include <string>
#include <string_view>

#include "engine/state.hpp"
#include "server/agent_hub.hpp"

namespace tranche::api {

enum class Fleet { kReal, kSimulated };

void append_metric(std::string& out,
                   std::string_view name,
                   std::string_view kind,
                   std::string_view help,
                   std::string_view value);
// `hostname_label`: the exporter renamed Hostname to hostname; boards know one of the two, joins bear no
// both.
void append_device_metrics(std::string& out,
                           const engine::State& state,
                           const server::AgentHub& hub,
                           Fleet fleet,
                           std::string_view hostname_label);
void append_slice_metrics(std::string& out,
                          const engine::State& state,
                          const server::AgentHub& hub,
                          Fleet fleet);
void append_tenant_metrics(std::string& out, const engine::State& state, Fleet fleet);

}  // namespace tranche::api
