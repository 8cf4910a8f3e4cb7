// SPDX-License-Identifier: Apache-2.0
#pragma once
// Taxes as the operator writes them: rates by country and region, and how a party is taxed.
#include <array>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"

namespace tranche::wire {

enum class TaxTreatment : std::uint8_t {
  kStandard,       // The rate of its country and region, or its own.
  kExempt,         // No tax, by a certificate with a number.
  kReverseCharge,  // No tax on the invoice: the customer, known by a number, accounts for it.
};
BOOST_DESCRIBE_ENUM(TaxTreatment, kStandard, kExempt, kReverseCharge)

struct TaxRate {
  std::string country{};  // ISO 3166, two letters.
  std::string region{};   // Of the country; empty: where no region has a rate of its own.
  std::string name{};     // As it stands on invoices: VAT, IVA, GST.
  std::int64_t rate_ppm = 0;
  std::optional<Instant> valid_from{};
};
BOOST_DESCRIBE_STRUCT(TaxRate, (), (country, region, name, rate_ppm, valid_from))
template <>
struct Fields<TaxRate> {
  static constexpr std::array<std::string_view, 2> kRequired{"country", "rate_ppm"};
  static constexpr std::array kDocs{FieldDoc{"country", "two letters of ISO 3166"},
                                    FieldDoc{"name", "as it stands on invoices; else VAT"},
                                    FieldDoc{"rate_ppm", "parts of a million: 210000 is 21 %"},
                                    FieldDoc{"valid_from", "when it begins to hold; else now"}};
};
struct TaxRateList {
  std::vector<TaxRate> items{};
};
BOOST_DESCRIBE_STRUCT(TaxRateList, (), (items))

// How a party is taxed, and who it is on an invoice. That of the platform says who issues them.
struct TaxProfile {
  std::string legal_name{};
  std::string address{};  // Lines, separated by line ends.
  std::string country{};
  std::string region{};
  std::string number{};  // Tax number, or that of the exemption.
  TaxTreatment treatment = TaxTreatment::kStandard;
  std::optional<std::int64_t> rate_ppm{};  // Its own, instead of that of its country.
  std::string rate_name{};
  std::optional<Instant> valid_from{};
};
BOOST_DESCRIBE_STRUCT(
    TaxProfile,
    (),
    (legal_name, address, country, region, number, treatment, rate_ppm, rate_name, valid_from))
template <>
struct Fields<TaxProfile> {
  static constexpr std::array kDocs{
      FieldDoc{"legal_name", "as it stands on invoices; else its path"},
      FieldDoc{"address", "lines, separated by line ends"},
      FieldDoc{"number", "tax number; of who is exempt, that of the certificate"},
      FieldDoc{"rate_ppm", "a rate of its own, in parts of a million, instead of that of its country"},
      FieldDoc{"valid_from", "when it begins to hold; else now"}};
};

struct TaxTermsView {  // What holds for a party now.
  std::string party{};
  std::string from{};  // The party whose profile it is; empty: none has one, and there is no tax.
  std::string name{};
  std::int64_t rate_ppm = 0;
  std::string note{};                  // What an invoice says about it.
  std::vector<TaxProfile> profiles{};  // Of the party itself, oldest first.
};
BOOST_DESCRIBE_STRUCT(TaxTermsView, (), (party, from, name, rate_ppm, note, profiles))

struct TaxReportRow {
  std::string country{};
  std::string region{};
  std::string name{};
  std::int64_t rate_ppm = 0;
  TaxTreatment treatment = TaxTreatment::kStandard;
  Money base{};  // Of invoices that were issued.
  Money tax{};
  Money credited{};  // Of the base, by credit notes.
  Money tax_credited{};
  std::uint32_t invoices = 0;
};
BOOST_DESCRIBE_STRUCT(
    TaxReportRow,
    (),
    (country, region, name, rate_ppm, treatment, base, tax, credited, tax_credited, invoices))
struct TaxReport {
  std::string currency{};
  Instant from{}, to{};  // Invoices and notes made then.
  std::vector<TaxReportRow> items{};
  Money to_pay{};   // Tax less what was credited.
  Money account{};  // The balance of the account of taxes now.
};
BOOST_DESCRIBE_STRUCT(TaxReport, (), (currency, from, to, items, to_pay, account))

}  // namespace tranche::wire
