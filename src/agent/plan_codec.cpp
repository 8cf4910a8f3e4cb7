// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_plan.hpp"
#include "wire/codec_impl.hpp"

TRANCHE_WIRE_CODEC(tranche::agent::SandboxPlan);
