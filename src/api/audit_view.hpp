// SPDX-License-Identifier: Apache-2.0
#pragma once
// A record of the journal as an entry of the audit log, for somebody. One record may concern several tenants
// (a scheduling pass, a trade): everybody is shown his own part, and nothing of the others.
#include <cstdint>

#include "engine/access.hpp"
#include "engine/record.hpp"
#include "wire/api_job.hpp"

namespace tranche::api {

// Whether any of it may be shown to him.
[[nodiscard]] bool can_audit(const engine::State&, const engine::Actor&, const engine::Record&);

[[nodiscard]] wire::AuditEntry audit_entry(const engine::State&,
                                           const engine::Actor&,
                                           std::uint64_t sequence,
                                           const engine::Record&);

// Somebody of another tenant, of whom he may not even know who it is. The platform's own people are none.
[[nodiscard]] bool is_stranger(const engine::State&, const engine::Actor&, PartyId who);

}  // namespace tranche::api
