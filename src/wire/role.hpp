// SPDX-License-Identifier: Apache-2.0
#pragma once
// Roles, bound to a node of the tree of who and holding for all below it; and the scopes of tokens.
#include <boost/describe/enum.hpp>
#include <cstdint>

#include "base/ids.hpp"

namespace tranche {
BOOST_DESCRIBE_ENUM(PartyKind, kPlatform, kTenant, kSubscriber, kUser, kService)
}

namespace tranche::wire {

enum class Role : std::uint8_t {
  kPlatformOwner,
  kTenantAdmin,
  kSubscriberAdmin,
  kMember,
  kViewer,
  kAuditor,
  kBilling,
  kCapacityOwner,
};
BOOST_DESCRIBE_ENUM(Role,
                    kPlatformOwner,
                    kTenantAdmin,
                    kSubscriberAdmin,
                    kMember,
                    kViewer,
                    kAuditor,
                    kBilling,
                    kCapacityOwner)

enum class Scope : std::uint8_t { kRead, kJobs, kAdmin };  // Each includes those before it.
BOOST_DESCRIBE_ENUM(Scope, kRead, kJobs, kAdmin)

}  // namespace tranche::wire
