// SPDX-License-Identifier: Apache-2.0
#include "engine/money_snapshot.hpp"

#include "engine/market_fill.hpp"
#include "engine/snapshot_values.hpp"

namespace tranche::engine {
namespace {

using wire::detail::read_record;
using wire::detail::RecordReader;
using wire::detail::write_record;

struct PartyTaxes {
  PartyId party{};
  std::vector<TaxProfile> profiles{};
};
BOOST_DESCRIBE_STRUCT(PartyTaxes, (), (party, profiles))

struct MoneyCounters {
  std::uint64_t next_posting = 1, next_hold = 1, next_order = 1, next_piece = 1, next_contract = 1;
  std::uint64_t trade_count = 0;
  MarketRules rules{};
  // Here and not in tables of their own, because snapshots of before end without them.
  std::uint64_t next_listing = 1;
  std::vector<CreditNote> credit_notes{};
  std::vector<RecurringListing> recurring_listings{};
  std::vector<CapacityCost> capacity_costs{};
  std::uint64_t next_quote = 1;
  std::vector<Quote> quotes{};
  wire::Zones zones{};
  std::vector<TaxRate> tax_rates{};
  std::vector<PartyTaxes> tax_profiles{};
  std::vector<Billing> billing{};
  std::vector<Invoice> invoices{};
};
BOOST_DESCRIBE_STRUCT(MoneyCounters,
                      (),
                      (next_posting,
                       next_hold,
                       next_order,
                       next_piece,
                       next_contract,
                       trade_count,
                       rules,
                       next_listing,
                       credit_notes,
                       recurring_listings,
                       capacity_costs,
                       next_quote,
                       quotes,
                       zones,
                       tax_rates,
                       tax_profiles,
                       billing,
                       invoices))

template <class Map>
std::vector<typename Map::mapped_type> values_of(const Map& map) {
  std::vector<typename Map::mapped_type> values;
  for (const auto& [key, value] : map) values.push_back(value);
  return values;
}

std::vector<PartyTaxes> taxes_of(const State& state) {
  std::vector<PartyTaxes> all;
  for (const auto& [party, profiles] : state.taxes.profiles) all.push_back({party, profiles});
  return all;
}

void read_billing(MoneyCounters& counters, State& state) {
  state.market.next_quote = counters.next_quote;
  for (Quote& quote : counters.quotes) state.market.quotes.emplace(quote.id, std::move(quote));
  state.zones = std::move(counters.zones);
  state.taxes.rates = std::move(counters.tax_rates);
  for (const TaxRate& rate : state.taxes.rates) note_tax_change(state.taxes, *rate.valid_from);
  for (PartyTaxes& one : counters.tax_profiles) {
    for (const TaxProfile& profile : one.profiles) note_tax_change(state.taxes, *profile.valid_from);
    state.taxes.profiles.emplace(one.party, std::move(one.profiles));
  }
  for (const Billing& one : counters.billing) state.billing.emplace(one.payer, one);
  for (Invoice& one : counters.invoices) {
    const InvoiceKey key = one.key;
    state.invoices.emplace(key, std::move(one));
  }
}

template <class T>
void write_table(std::string& out, const IdTable<T>& table) {
  const auto ids = table.ids();
  wire::detail::write_varint(out, ids.size());
  for (const std::uint64_t id : ids) write_record(out, *table.find(id));
}

bool read_ledger(RecordReader& reader, Ledger& ledger) {
  return read_each<Account>(reader, [&](Account one) { ledger.accounts.insert(one.id.value, one); }) &&
         read_each<Hold>(reader, [&](Hold one) { ledger.holds.emplace(one.id, std::move(one)); }) &&
         read_each<Posting>(reader, [&](Posting one) {
           if (!one.reference.empty()) ledger.by_reference.emplace(one.reference, one.id);
           ledger.postings.emplace(one.id, std::move(one));
         });
}

bool read_market(RecordReader& reader, Market& market) {
  return read_record(reader, market.instruments) &&
         read_each<Piece>(reader,
                          [&](Piece one) {
                            const std::uint64_t id = one.id.value;
                            note_piece(market, market.pieces.insert(id, std::move(one)));
                          }) &&
         read_each<Certified>(reader,
                              [&](Certified one) { market.certified.emplace(one.device, std::move(one)); }) &&
         read_each<MarketOrder>(reader,
                                [&](MarketOrder one) {
                                  const std::uint64_t id = one.id;
                                  market.books.rest(std::move(one));
                                  note_due(market, *market.books.order(id));
                                }) &&
         read_each<Contract>(
             reader, [&](Contract one) { note_due(market, market.contracts.insert(one.id.value, one)); }) &&
         read_each<Reliability>(reader,
                                [&](Reliability one) { market.reliability.emplace(one.seller, one); }) &&
         read_record(reader, market.trades);
}

bool read_meters(RecordReader& reader, State& state) {
  return read_record(reader, state.prices) &&
         read_each<Meter>(reader, [&](Meter one) { state.meters.emplace(one.lease, std::move(one)); }) &&
         read_each<Spent>(reader, [&](Spent one) { state.spent.emplace(one.party, one); }) &&
         read_each<CostLine>(reader, [&](CostLine one) { state.costs.emplace(one.key, std::move(one)); });
}

}  // namespace

void encode_money(std::string& out, const State& state) {
  const Ledger& ledger = state.ledger;
  const Market& market = state.market;
  write_record(out,
               MoneyCounters{ledger.next_posting,
                             ledger.next_hold,
                             market.next_order,
                             market.next_piece,
                             market.next_contract,
                             market.trade_count,
                             market.rules,
                             state.next_listing,
                             values_of(state.credit_notes),
                             values_of(state.recurring_listings),
                             state.capacity_costs,
                             market.next_quote,
                             values_of(market.quotes),
                             state.zones,
                             state.taxes.rates,
                             taxes_of(state),
                             values_of(state.billing),
                             values_of(state.invoices)});
  write_table(out, ledger.accounts);
  write_values(out, ledger.holds);
  write_values(out, ledger.postings);
  write_record(out, market.instruments);
  write_table(out, market.pieces);
  write_values(out, market.certified);
  const auto orders = market.books.ids();
  wire::detail::write_varint(out, orders.size());
  for (const std::uint64_t id : orders) write_record(out, *market.books.order(id));
  write_table(out, market.contracts);
  write_values(out, market.reliability);
  write_record(out, market.trades);
  write_record(out, state.prices);
  write_values(out, state.meters);
  write_values(out, state.spent);
  write_values(out, state.costs);
}

bool decode_money(RecordReader& reader, State& state) {
  if (reader.left() == 0) return true;  // Written before there was money.
  MoneyCounters counters;
  if (!read_record(reader, counters)) return false;
  state.ledger.next_posting = counters.next_posting;
  state.ledger.next_hold = counters.next_hold;
  state.market.next_order = counters.next_order;
  state.market.next_piece = counters.next_piece;
  state.market.next_contract = counters.next_contract;
  state.market.trade_count = counters.trade_count;
  state.market.rules = counters.rules;
  state.next_listing = counters.next_listing;
  state.capacity_costs = std::move(counters.capacity_costs);
  read_billing(counters, state);
  for (CreditNote& note : counters.credit_notes) {
    const CreditNoteKey key = note.key;
    state.credit_notes.emplace(key, std::move(note));
  }
  for (RecurringListing& listing : counters.recurring_listings) {
    const ListingId id = listing.id;
    state.recurring_listings.emplace(id, std::move(listing));
  }
  if (!read_ledger(reader, state.ledger) || !read_market(reader, state.market) || !read_meters(reader, state))
    return false;
  for (const BookState& book : state.market.instruments)
    state.market.by_instrument.emplace(book.instrument, book.id);
  return true;
}

}  // namespace tranche::engine
