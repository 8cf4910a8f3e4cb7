// SPDX-License-Identifier: Apache-2.0
#pragma once
// Setting quotas. Limits come from above: whoever is bound by a quota does not set it.
#include <boost/describe/class.hpp>
#include <cstdint>

#include "base/ids.hpp"
#include "wire/quota.hpp"

namespace tranche::engine {

using wire::OverQuota;
using wire::PerJobLimits;
using wire::Quota;
using wire::QuotaShare;
using wire::Usage;

struct SetQuota {
  PartyId party{};
  Quota quota{};
  std::uint64_t if_version = 0;
};
struct QuotaSet {
  PartyId party{};
  Quota before{};
  Quota after{};
};
BOOST_DESCRIBE_STRUCT(QuotaSet, (), (party, before, after))

}  // namespace tranche::engine
