// SPDX-License-Identifier: Apache-2.0
// tax: rates by country, how parties are taxed, and what is owed to the tax office.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/market_options.hpp"
#include "cli/price_plan.hpp"
#include "net/http.hpp"
#include "wire/tax.hpp"

namespace tranche::cli {
namespace {

using wire::TaxProfile;
using wire::TaxRate;
using wire::TaxTermsView;

std::int64_t percent_value(const std::string& option, const std::string& given) {
  if (const auto ppm = parse_percent(given)) return *ppm;
  throw usage_failure(option + " takes a percentage from 0% to 100% with at most four decimals, not '" +
                      given + "'");
}

std::optional<Instant> when(const std::string& given) {
  return given.empty() ? std::nullopt : std::optional(time_value("--from", given));
}

std::string from_text(const std::optional<Instant>& from) {
  return from ? local_time_text(*from) : "now";
}

Table rate_table(const std::vector<TaxRate>& rates) {
  Table table({{"COUNTRY"}, {"REGION"}, {"NAME"}, {"RATE", Align::kRight}, {"VALID FROM"}});
  for (const TaxRate& rate : rates)
    table.add({rate.country,
               rate.region.empty() ? "-" : rate.region,
               rate.name,
               percent_text(rate.rate_ppm),
               from_text(rate.valid_from)});
  return table;
}

void add_rates(const Command& group, Program& program) {
  struct Options {
    std::string country{}, rate{}, region{}, name{}, from{};
  };
  const auto options = std::make_shared<Options>();
  const Command& rate = add_command(group,
                                    {"rate",
                                     "Set the rate of a country, or of a region of it",
                                     "tranche tax rate ES 21% --name IVA\n"
                                     "tranche tax rate ES 7% --region Canarias --name IGIC\n"
                                     "tranche tax rate DE 19% --from 2027-01-01T00:00:00+01:00"});
  rate.add_option("country", options->country, "Two letters of ISO 3166").required();
  rate.add_option("rate", options->rate, "Such as 21%").required();
  rate.add_option("--region", options->region, "Of the country; else all that have none of their own")
      .type_name("REGION");
  rate.add_option("--name", options->name, "As it stands on invoices; else VAT").type_name("NAME");
  rate.add_option("--from", options->from, "When it begins to hold; else now").type_name("TIME");
  rate.callback([options, &program] {
    const TaxRate body{.country = options->country,
                       .region = options->region,
                       .name = options->name,
                       .rate_ppm = percent_value("rate", options->rate),
                       .valid_from = when(options->from)};
    Session& session = program.session();
    const auto answer =
        session.ask<TaxRate>({.method = "PUT", .path = "/v1/taxes/rates", .body = wire::to_json(body)});
    session.print(answer.body, {.table = [&] { return rate_table({answer.value}); }});
  });
  add_command(group, {"rates", "Rates, those to come included", "tranche tax rates"}).callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<wire::TaxRateList>("/v1/taxes/rates");
    session.print(answer.body, {.table = [&] { return rate_table(answer.value.items); }});
  });
}

std::string terms_text(const TaxTermsView& terms) {
  std::string out = "party       " + terms.party + "\n";
  if (terms.from.empty()) return out + "tax         none: no profile is set\n";
  out += "tax         " +
         (terms.note.empty() ? terms.name + " " + percent_text(terms.rate_ppm) : terms.note) + "\n";
  if (terms.from != terms.party) out += "by          the profile of " + terms.from + "\n";
  for (const TaxProfile& one : terms.profiles) {
    out += "from        " + from_text(one.valid_from) + ": " + one.country +
           (one.region.empty() ? "" : " " + one.region) + ", " + std::string(wire::name_of(one.treatment)) +
           (one.rate_ppm ? ", rate " + percent_text(*one.rate_ppm) : "") +
           (one.number.empty() ? "" : ", number " + one.number) +
           (one.legal_name.empty() ? "" : ", " + one.legal_name) + "\n";
  }
  return out;
}

void print(Session& session, const Answer<TaxTermsView>& answer) {
  session.print(answer.body,
                {.table =
                     [&] {
                       const TaxTermsView& one = answer.value;
                       Table table({{"PARTY"}, {"TAX"}, {"RATE", Align::kRight}, {"BY"}, {"NOTE"}});
                       table.add({one.party,
                                  one.from.empty() ? "none" : one.name,
                                  percent_text(one.rate_ppm),
                                  one.from.empty() ? "-" : one.from,
                                  one.note.empty() ? "-" : one.note});
                       return table;
                     },
                 .text = [&] { return terms_text(answer.value); }});
}

std::string path_of(const std::string& party) {
  return "/v1/taxes/parties/" + path_segment(party);
}

struct ProfileOptions {
  std::string party{}, country{}, region{}, number{}, treatment{}, rate{}, rate_name{}, name{}, from{};
  std::vector<std::string> address{};
};

TaxProfile profile_of(const ProfileOptions& options) {
  TaxProfile profile{.legal_name = options.name,
                     .country = options.country,
                     .region = options.region,
                     .number = options.number,
                     .rate_name = options.rate_name,
                     .valid_from = when(options.from)};
  for (const std::string& line : options.address)
    profile.address += (profile.address.empty() ? "" : "\n") + line;
  if (!options.treatment.empty())
    profile.treatment = enum_value<wire::TaxTreatment>("--treatment", options.treatment);
  if (!options.rate.empty()) profile.rate_ppm = percent_value("--rate", options.rate);
  return profile;
}

void add_profiles(const Command& group, Program& program) {
  const auto options = std::make_shared<ProfileOptions>();
  const Command& set =
      add_command(group,
                  {"set",
                   "Set how a party is taxed, and who it is on an invoice",
                   "tranche tax set acme --country ES --number ESB12345678 --name \"Acme SL\" --address "
                   "\"Calle Mayor 1\" "
                   "--address \"28013 Madrid\"\n"
                   "tranche tax set globex --country DE --treatment reverse-charge --number DE123456789\n"
                   "tranche tax set school --country ES --treatment exempt --number EX-77\n"
                   "tranche tax set platform --country ES --number ESB87654321 --name \"GPU Cloud SL\""});
  set.add_option("party", options->party, "Id or path; `platform` is who issues invoices").required();
  set.add_option("--country", options->country, "Two letters of ISO 3166").type_name("COUNTRY");
  set.add_option("--region", options->region, "Of the country, where it has a rate of its own")
      .type_name("REGION");
  set.add_option("--treatment", options->treatment, "standard, exempt or reverse-charge")
      .type_name("TREATMENT");
  set.add_option("--number", options->number, "Tax number, or that of the exemption").type_name("NUMBER");
  set.add_option("--rate", options->rate, "A rate of its own, instead of that of its country")
      .type_name("PERCENT");
  set.add_option("--rate-name", options->rate_name, "What that is called").type_name("NAME");
  set.add_option("--name", options->name, "Its name on an invoice; else its path").type_name("NAME");
  set.add_option("--address", options->address, "A line of its address; may be repeated")
      .type_name("LINE")
      .repeatable();
  set.add_option("--from", options->from, "When it begins to hold; else now").type_name("TIME");
  set.callback([options, &program] {
    Session& session = program.session();
    print(
        session,
        session.ask<TaxTermsView>(
            {.method = "PUT", .path = path_of(options->party), .body = wire::to_json(profile_of(*options))}));
  });
  const auto party = std::make_shared<std::string>();
  const Command& show =
      add_command(group, {"show", "How a party is taxed, and by whose profile", "tranche tax show acme"});
  show.add_option("party", *party, "Id or path; else --subscriber");
  show.callback([party, &program] {
    Session& session = program.session();
    print(session, session.get<TaxTermsView>(path_of(session.party_or_default(*party, "the party"))));
  });
}

Table report_table(const wire::TaxReport& report) {
  Table table({{"COUNTRY"},
               {"REGION"},
               {"TAX"},
               {"RATE", Align::kRight},
               {"INVOICES", Align::kRight},
               {"BASE", Align::kRight},
               {"TAX AMOUNT", Align::kRight},
               {"CREDITED", Align::kRight},
               {"TAX CREDITED", Align::kRight}});
  for (const wire::TaxReportRow& row : report.items)
    table.add({row.country,
               row.region.empty() ? "-" : row.region,
               row.treatment == wire::TaxTreatment::kStandard ? row.name
                                                              : std::string(wire::name_of(row.treatment)),
               percent_text(row.rate_ppm),
               std::to_string(row.invoices),
               text(row.base),
               text(row.tax),
               text(row.credited),
               text(row.tax_credited)});
  table.add({"to pay", "", "", "", "", "", text(report.to_pay), "", ""});
  table.add({"on the account of taxes", "", "", "", "", "", text(report.account), "", ""});
  return table;
}

void add_report(const Command& group, Program& program) {
  struct Span {
    std::string from{}, to{};
  };
  const auto span = std::make_shared<Span>();
  const Command& report = add_command(group,
                                      {"report",
                                       "Taxes on invoices issued and credit notes made",
                                       "tranche tax report --from 2026-10-01 --to 2027-01-01"});
  report.add_option("--from", span->from, "First day (UTC); else all").type_name("DAY");
  report.add_option("--to", span->to, "The day after the last").type_name("DAY");
  report.callback([span, &program] {
    std::string query;
    for (const auto& [name, value] : {std::pair{"from", &span->from}, std::pair{"to", &span->to}})
      if (!value->empty())
        query += (query.empty() ? "?" : "&") + std::string(name) + "=" + net::percent_encode(*value);
    Session& session = program.session();
    const auto answer = session.get<wire::TaxReport>("/v1/taxes/report" + query);
    session.print(answer.body, {.table = [&] { return report_table(answer.value); }});
  });
}

}  // namespace

void add_tax_commands(const Command& root, Program& program) {
  const Command& group = add_group(root, {"tax", "Taxes on invoices", "tranche tax rate ES 21% --name IVA"});
  add_rates(group, program);
  add_profiles(group, program);
  add_report(group, program);
}

}  // namespace tranche::cli
