// SPDX-License-Identifier: Apache-2.0
#pragma once
// Taxes: which rate an invoice of a party is under at an instant, by its country, its own rate, or none.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/tax.hpp"

namespace tranche::engine {

using wire::TaxProfile;
using wire::TaxRate;
using wire::TaxTreatment;

struct State;

struct Taxes {
  std::vector<TaxRate> rates{};                           // By the time from which they hold.
  std::map<PartyId, std::vector<TaxProfile>> profiles{};  // Likewise.
  std::vector<Instant> changes{};                         // When any of them begins to hold; rebuilt.
};
void note_tax_change(Taxes&, Instant from);

struct SetTaxRate {
  TaxRate rate{};
};
struct TaxRateSet {
  TaxRate rate{};
};
BOOST_DESCRIBE_STRUCT(TaxRateSet, (), (rate))

struct SetTaxProfile {
  PartyId party{};
  TaxProfile profile{};
};
struct TaxProfileSet {
  PartyId party{};
  TaxProfile profile{};
};
BOOST_DESCRIBE_STRUCT(TaxProfileSet, (), (party, profile))

struct TaxTerms {
  PartyId from{};  // Whose profile it is; zero: nobody's, and there is no tax.
  std::string country{}, region{};
  std::string name{};
  std::int64_t rate_ppm = 0;
  TaxTreatment treatment = TaxTreatment::kStandard;
  std::string note{};
  auto operator<=>(const TaxTerms&) const = default;
};
[[nodiscard]] TaxTerms tax_terms(const State&, PartyId party, Instant at);
// Who a party is on an invoice then: the profile in force at or above it, or none.
[[nodiscard]] const TaxProfile* tax_profile(const State&, PartyId party, Instant at);

// Whole cents, half to even. Exact for any amount that a ledger can hold.
[[nodiscard]] Money tax_of(Money base, std::int64_t rate_ppm);
[[nodiscard]] std::string percent_text(std::int64_t ppm);  // "21 %", "8.875 %"

}  // namespace tranche::engine
