// SPDX-License-Identifier: Apache-2.0
#pragma once
// A refusal: one broken rule, named, with what was asked, what the limit is, and what would fit.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>

namespace tranche::wire {

enum class Reason : std::uint8_t {
  kNotFound,   // Also what somebody else's object looks like.
  kForbidden,  // The actor sees the object, but no role of his allows this.
  kInvalid,    // The request makes no sense in the present state.
  kConflict,   // Something of that name exists, or has ended already.
  kStale,      // If-Match named an older version.
  kReused,     // The idempotency key was used with another body.
  kQuota,
  kPolicy,
  kBudget,
};
BOOST_DESCRIBE_ENUM(
    Reason, kNotFound, kForbidden, kInvalid, kConflict, kStale, kReused, kQuota, kPolicy, kBudget)

struct Refusal {
  Reason reason = Reason::kInvalid;
  std::string rule{};     // The rule or limit that was broken: "gpu_milli", "rule 'training at night'".
  std::string where{};    // Path of the party that sets it: "acme/research".
  std::string message{};  // One sentence for a person.
  std::string fix{};      // What would fit, or whom to ask.
  std::int64_t limit = 0, used = 0, asked = 0;  // All zero where no number is involved.
  bool operator==(const Refusal&) const = default;
};
BOOST_DESCRIBE_STRUCT(Refusal, (), (reason, rule, where, message, fix, limit, used, asked))

}  // namespace tranche::wire
