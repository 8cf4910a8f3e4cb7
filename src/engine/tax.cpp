// SPDX-License-Identifier: Apache-2.0
#include "engine/tax.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/decide.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kCent = 10'000;
constexpr std::size_t kRatesMost = 10'000;
constexpr std::size_t kProfilesMost = 64;
constexpr std::size_t kTextMost = 200;

bool is_country(const std::string& code) {
  return code.size() == 2 && code[0] >= 'A' && code[0] <= 'Z' && code[1] >= 'A' && code[1] <= 'Z';
}

// The newest that holds then, for the region itself or for all of the country.
const TaxRate* rate_at(const std::vector<TaxRate>& rates,
                       const std::string& country,
                       const std::string& region,
                       Instant at) {
  const TaxRate* found = nullptr;
  for (const TaxRate& rate : rates) {  // By the time from which they hold.
    if (rate.country != country || *rate.valid_from > at) continue;
    const bool exact = rate.region == region;
    const bool better = found == nullptr || exact || found->region != region;
    if ((exact || rate.region.empty()) && better) found = &rate;
  }
  return found;
}

const TaxProfile* profile_at(const Taxes& taxes, PartyId party, Instant at) {
  const auto found = taxes.profiles.find(party);
  if (found == taxes.profiles.end()) return nullptr;
  const TaxProfile* in_force = nullptr;
  for (const TaxProfile& one : found->second)
    if (*one.valid_from <= at) in_force = &one;
  return in_force;
}

// What was billed stays as it is: nothing that is written now may hold before the end of it.
Instant billed_to(const State& state) {
  Instant latest{};
  for (const auto& [payer, billing] : state.billing) latest = std::max(latest, billing.issued_to);
  return latest;
}

std::optional<Refusal> past_problem(const State& state, Instant from) {
  const Instant billed = billed_to(state);
  if (from >= billed) return std::nullopt;
  return invalid("valid_from",
                 "invoices were issued until " + text(billed) + ", and they do not change",
                 "let it hold from then on, or later");
}

std::optional<Refusal> rate_problem(const TaxRate& rate) {
  if (!is_country(rate.country))
    return invalid("country",
                   "a country is two capital letters of ISO 3166, not '" + rate.country + "'",
                   "give for example ES");
  if (rate.rate_ppm < 0 || rate.rate_ppm > kMillion)
    return invalid("rate", "a rate is 0 to 100 %", "give for example 21%");
  if (rate.region.size() > kTextMost || rate.name.size() > kTextMost)
    return invalid("name", "names have at most 200 letters", "shorten it");
  return std::nullopt;
}

std::optional<Refusal> profile_problem(const State& state, PartyId party, const TaxProfile& profile) {
  for (const std::string* one : {&profile.legal_name, &profile.region, &profile.number, &profile.rate_name})
    if (one->size() > kTextMost)
      return invalid("profile", "names and numbers have at most 200 letters", "shorten it");
  if (profile.address.size() > 5 * kTextMost)
    return invalid("address", "an address has at most 1000 letters", "shorten it");
  if (!profile.country.empty() && !is_country(profile.country))
    return invalid("country",
                   "a country is two capital letters of ISO 3166, not '" + profile.country + "'",
                   "give for example ES");
  if (profile.rate_ppm && (*profile.rate_ppm < 0 || *profile.rate_ppm > kMillion))
    return invalid("rate", "a rate is 0 to 100 %", "give for example 21%");
  if (party == kPlatform) return std::nullopt;  // It issues invoices, and gets none.
  if (profile.treatment != TaxTreatment::kStandard) {
    if (profile.rate_ppm) return invalid("rate", "who is not taxed has no rate", "leave the rate out");
    if (profile.number.empty())
      return invalid("number",
                     profile.treatment == TaxTreatment::kExempt
                         ? "an exemption has the number of its certificate"
                         : "a reverse charge names the customer by its tax number",
                     "give --number");
    return std::nullopt;
  }
  if (profile.rate_ppm || profile.country.empty()) return std::nullopt;
  if (rate_at(state.taxes.rates, profile.country, profile.region, Instant::max()) != nullptr)
    return std::nullopt;
  return invalid("country",
                 "there is no tax rate for " + profile.country,
                 "set one first: tranche tax rate " + profile.country + " 21%");
}

template <class T>
void insert_by_time(std::vector<T>& list, const T& value) {
  const auto at = std::upper_bound(
      list.begin(), list.end(), value, [](const T& a, const T& b) { return *a.valid_from < *b.valid_from; });
  list.insert(at, value);
}

}  // namespace

void note_tax_change(Taxes& taxes, Instant from) {
  const auto at = std::lower_bound(taxes.changes.begin(), taxes.changes.end(), from);
  if (at == taxes.changes.end() || *at != from) taxes.changes.insert(at, from);
}

std::string percent_text(std::int64_t ppm) {
  std::string out = std::to_string(ppm / 10'000);
  std::string rest = std::to_string(10'000 + ppm % 10'000).substr(1);
  while (!rest.empty() && rest.back() == '0') rest.pop_back();
  return out + (rest.empty() ? "" : "." + rest) + " %";
}

Money tax_of(Money base, std::int64_t rate_ppm) {
  const Int128 exact = Int128{base.micros} * rate_ppm;  // Millionths of micro-units.
  constexpr Int128 kWhole = Int128{kCent} * kMillion;
  const Int128 rest = ((exact % kWhole) + kWhole) % kWhole;
  Int128 cents = (exact - rest) / kWhole;
  if (rest * 2 > kWhole || (rest * 2 == kWhole && cents % 2 != 0)) ++cents;
  return {static_cast<std::int64_t>(cents * kCent)};
}

const TaxProfile* tax_profile(const State& state, PartyId party, Instant at) {
  if (party == kPlatform) return profile_at(state.taxes, kPlatform, at);
  for (const Party* up = state.party(party); up != nullptr && up->id != kPlatform;
       up = state.party(up->parent))
    if (const TaxProfile* found = profile_at(state.taxes, up->id, at)) return found;
  return nullptr;
}

TaxTerms tax_terms(const State& state, PartyId party, Instant at) {
  TaxTerms terms;
  const TaxProfile* profile = nullptr;
  for (const Party* up = state.party(party); up != nullptr && up->id != kPlatform && profile == nullptr;
       up = state.party(up->parent)) {
    profile = profile_at(state.taxes, up->id, at);
    if (profile != nullptr) terms.from = up->id;
  }
  if (profile == nullptr) return terms;
  terms.country = profile->country;
  terms.region = profile->region;
  terms.treatment = profile->treatment;
  const TaxRate* rate = rate_at(state.taxes.rates, profile->country, profile->region, at);
  terms.name = !profile->rate_name.empty() ? profile->rate_name : rate != nullptr ? rate->name : "VAT";
  switch (profile->treatment) {
    case TaxTreatment::kStandard:
      terms.rate_ppm = profile->rate_ppm.value_or(rate == nullptr ? 0 : rate->rate_ppm);
      break;
    case TaxTreatment::kExempt:
      terms.note = "Exempt from " + terms.name + ", certificate " + profile->number;
      break;
    case TaxTreatment::kReverseCharge:
      terms.note =
          "Reverse charge: " + terms.name + " to be accounted for by the customer, " + profile->number;
      break;
  }
  return terms;
}

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const SetTaxRate& command) {
  if (auto r = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*r);
  TaxRate rate = command.rate;
  if (rate.name.empty()) rate.name = "VAT";
  if (!rate.valid_from) rate.valid_from = envelope.at;
  if (auto r = rate_problem(rate)) return refuse(*r);
  if (auto r = past_problem(state, *rate.valid_from)) return refuse(*r);
  if (state.taxes.rates.size() >= kRatesMost)
    return refuse(invalid("rate", "there are 10000 rates already", "that is all there can be"));
  return Events{TaxRateSet{std::move(rate)}};
}

void apply(State& state, const Envelope&, const TaxRateSet& event) {
  auto& rates = state.taxes.rates;
  std::erase_if(rates, [&](const TaxRate& one) {
    return one.country == event.rate.country && one.region == event.rate.region &&
           one.valid_from == event.rate.valid_from;
  });
  insert_by_time(rates, event.rate);
  note_tax_change(state.taxes, *event.rate.valid_from);
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const SetTaxProfile& command) {
  if (!may(state, actor, Action::kCorrectInvoices, kPlatform))
    if (auto r = check_access(state, actor, Action::kManagePlatform, command.party)) return refuse(*r);
  if (state.party(command.party) == nullptr) return refuse(not_found());
  TaxProfile profile = command.profile;
  if (!profile.valid_from) profile.valid_from = envelope.at;
  if (auto r = profile_problem(state, command.party, profile)) return refuse(*r);
  if (auto r = past_problem(state, *profile.valid_from)) return refuse(*r);
  const auto known = state.taxes.profiles.find(command.party);
  if (known != state.taxes.profiles.end() && known->second.size() >= kProfilesMost)
    return refuse(invalid("profile", "it was changed 64 times already", "that is all there can be"));
  return Events{TaxProfileSet{command.party, std::move(profile)}};
}

void apply(State& state, const Envelope&, const TaxProfileSet& event) {
  auto& profiles = state.taxes.profiles[event.party];
  std::erase_if(profiles, [&](const TaxProfile& one) { return one.valid_from == event.profile.valid_from; });
  insert_by_time(profiles, event.profile);
  note_tax_change(state.taxes, *event.profile.valid_from);
}

}  // namespace tranche::engine
