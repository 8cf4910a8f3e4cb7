// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of the exchange. Prices are for an hour of a whole device, as people quote them.
#include <array>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/isolation.hpp"
#include "wire/workload.hpp"

namespace tranche::wire {

enum class MarketSide : std::uint8_t { kBuy, kSell };
BOOST_DESCRIBE_ENUM(MarketSide, kBuy, kSell)
enum class OrderLife : std::uint8_t { kGtc, kGtd, kIoc, kFok };
BOOST_DESCRIBE_ENUM(OrderLife, kGtc, kGtd, kIoc, kFok)

struct InstrumentBody {
  std::string model{};
  std::string shape{};
  std::string region{};
  Isolation isolation = Isolation::kSoft;
  bool interruptible = false;
};
BOOST_DESCRIBE_STRUCT(InstrumentBody, (), (model, shape, region, isolation, interruptible))

struct BookView {
  std::uint64_t book = 0;
  InstrumentBody instrument{};
  Money last{}, day_open{}, day_high{}, day_low{};  // An hour of a device or partition; zero: nothing traded.
  std::int64_t day_volume_milli_slots = 0;
};
BOOST_DESCRIBE_STRUCT(BookView,
                      (),
                      (book, instrument, last, day_open, day_high, day_low, day_volume_milli_slots))
struct BookList {
  std::vector<BookView> items{};
};
BOOST_DESCRIBE_STRUCT(BookList, (), (items))

struct DepthLevel {
  Money hourly{};
  std::int64_t milli = 0;
  std::uint32_t orders = 0;
};
BOOST_DESCRIBE_STRUCT(DepthLevel, (), (hourly, milli, orders))
struct DepthView {  // Of one slot. Nobody's name is in it.
  std::uint64_t book = 0;
  Instant slot{};
  std::vector<DepthLevel> bids{};
  std::vector<DepthLevel> asks{};
};
BOOST_DESCRIBE_STRUCT(DepthView, (), (book, slot, bids, asks))

struct FillView {
  std::uint64_t book = 0;
  Instant at{};
  Money hourly{};
  Instant from{}, to{};
  std::int64_t milli = 0;
};
BOOST_DESCRIBE_STRUCT(FillView, (), (book, at, hourly, from, to, milli))
struct FillList {
  std::vector<FillView> items{};
};
BOOST_DESCRIBE_STRUCT(FillList, (), (items))

// What anybody may follow live: trades, and how the day of their book stands after each; and the best prices
// of a slot whenever an order there comes, goes or falls. Nobody's name is in it.
struct MarketTrade {
  FillView fill{};
  BookView book{};
};
BOOST_DESCRIBE_STRUCT(MarketTrade, (), (fill, book))
struct MarketTop {
  std::uint64_t book = 0;
  Instant slot{};
  DepthLevel bid{}, ask{};  // An hourly price of zero: nobody.
};
BOOST_DESCRIBE_STRUCT(MarketTop, (), (book, slot, bid, ask))

struct OrderBody {
  std::string party{};  // Empty: the caller.
  InstrumentBody instrument{};
  std::int64_t milli = 0;
  Instant from{};  // Empty: now.
  Duration length{};
  Money hourly{};  // The most to pay, for an hour of a whole device.
  OrderLife life = OrderLife::kGtc;
  Instant expires{};
  WorkloadKind workload = WorkloadKind::kBatch;
  std::int64_t milli_min = 0;
  Duration length_min{};  // Zero: all of the window at once.
};
BOOST_DESCRIBE_STRUCT(
    OrderBody,
    (),
    (party, instrument, milli, from, length, hourly, life, expires, workload, milli_min, length_min))

struct QuoteView {  // What an order would trade now, and the most it can cost.
  std::int64_t milli_now = 0;
  Money cost_now{};
  Money most{};
  Money best{};                      // An hour of a device; zero: nothing is offered.
  std::string id{};                  // Of a quote that is kept; empty: it is worth what it is worth now.
  std::optional<Instant> expires{};  // Until then it is kept.
  std::string why{};                 // Where nothing could be had: which rule, and what would pass.
};
BOOST_DESCRIBE_STRUCT(QuoteView, (), (milli_now, cost_now, most, best, id, expires, why))

struct CandleView {
  Instant start{};
  Money open{}, high{}, low{}, close{};
  std::int64_t volume_milli_slots = 0;
};
BOOST_DESCRIBE_STRUCT(CandleView, (), (start, open, high, low, close, volume_milli_slots))
struct CandleList {
  std::uint64_t book = 0;
  InstrumentBody instrument{};
  std::vector<CandleView> items{};
};
BOOST_DESCRIBE_STRUCT(CandleList, (), (book, instrument, items))

struct OrderView {
  std::string id{};
  std::string party{};
  std::uint64_t book = 0;
  std::string gpus{};  // H100, H100:1g.10gb
  MarketSide side = MarketSide::kBuy;
  Money hourly{};
  std::int64_t milli = 0, milli_open = 0;
  Instant from{}, to{};
  Money held{};
  OrderLife life = OrderLife::kGtc;
  std::int64_t milli_min = 0;
  Duration length_min{};
  std::optional<Instant> expires{};
  bool quoted = false;  // Kept for somebody who was told its price.
};
BOOST_DESCRIBE_STRUCT(OrderView,
                      (),
                      (id,
                       party,
                       book,
                       gpus,
                       side,
                       hourly,
                       milli,
                       milli_open,
                       from,
                       to,
                       held,
                       life,
                       milli_min,
                       length_min,
                       expires,
                       quoted))
struct OrderList {
  std::vector<OrderView> items{};
};
BOOST_DESCRIBE_STRUCT(OrderList, (), (items))

struct ContractView {
  std::string id{};
  std::string role{};  // buyer or seller: which the caller is.
  std::string party{};
  std::uint64_t book = 0;
  std::string gpus{};  // H100, H100:1g.10gb
  std::string state{};
  Money hourly{};
  std::int64_t milli = 0;
  Instant from{}, to{};
  Money value{}, earned{}, fee{}, refunded{}, penalty{}, bond{};
  std::optional<std::int64_t> seller_delivers{};  // Of all he sold so far, in thousandths; none: nothing yet.
  std::string counterparty{};                     // Where the exchange's rules say that names are told.
  std::string device{};                           // Of what is delivered from; empty: it is a peer's.
  Duration reclaimed{};                           // Cut off its end by the seller.
  Money paid_out{};                               // Of what was earned: the seller's to spend.
};
BOOST_DESCRIBE_STRUCT(ContractView,
                      (),
                      (id,
                       role,
                       party,
                       book,
                       gpus,
                       state,
                       hourly,
                       milli,
                       from,
                       to,
                       value,
                       earned,
                       fee,
                       refunded,
                       penalty,
                       bond,
                       seller_delivers,
                       counterparty,
                       device,
                       reclaimed,
                       paid_out))
struct ContractList {
  std::vector<ContractView> items{};
};
BOOST_DESCRIBE_STRUCT(ContractList, (), (items))

struct SellerView {
  std::string party{};
  std::uint32_t contracts = 0, running = 0;  // In all, and of these not settled yet.
  Money sold{};                              // What buyers paid or have in escrow.
  Money earned{}, fee{};                     // Of that for time delivered; the fee is a part of it.
  Money refunded{}, penalty{};
  Money to_come{};                          // Earned, and paid out when the dispute window is over.
  std::optional<std::int64_t> delivered{};  // Of all that is over, in thousandths of what was sold.
};
BOOST_DESCRIBE_STRUCT(SellerView,
                      (),
                      (party, contracts, running, sold, earned, fee, refunded, penalty, to_come, delivered))
struct SellerList {
  std::vector<SellerView> items{};
};
BOOST_DESCRIBE_STRUCT(SellerList, (), (items))

struct OrderOutcome {  // Answers an order.
  std::string order{};
  bool resting = false;
  std::int64_t milli_open = 0;
  Money paid{}, held{};
  std::vector<std::string> contracts{};
  std::int64_t milli_traded = 0;  // On average over the window that was asked for.
};
BOOST_DESCRIBE_STRUCT(OrderOutcome, (), (order, resting, milli_open, paid, held, contracts, milli_traded))

struct ListingBody {
  std::string owner{};     // Empty: the caller.
  std::string device{};    // gpu_…; empty: any of the model that is free, on `node` where that is named.
  std::string contract{};  // Or a part of what was bought.
  InstrumentBody instrument{};
  std::int64_t milli = 1000;
  Instant from{};
  Duration length{};
  Money hourly{};
  Money floor{};  // Zero: the price stays.
  std::int64_t milli_min = 0;
  Duration length_min{};
  std::vector<std::string> to{};  // Parties that may take it; empty: all.
  std::vector<WorkloadKind> kinds{};
  std::string node{};
};
BOOST_DESCRIBE_STRUCT(ListingBody,
                      (),
                      (owner,
                       device,
                       contract,
                       instrument,
                       milli,
                       from,
                       length,
                       hourly,
                       floor,
                       milli_min,
                       length_min,
                       to,
                       kinds,
                       node))

struct RecurringListingBody {
  ListingBody listing{};  // Its `from` is not used.
  std::string every{};
  std::string zone{};
  std::uint32_t times = 0;
  std::string until{};
  Duration ahead = std::chrono::hours(24 * 7);
};
BOOST_DESCRIBE_STRUCT(RecurringListingBody, (), (listing, every, zone, times, until, ahead))
template <>
struct Fields<RecurringListingBody> {
  static constexpr std::array<std::string_view, 2> kRequired{"listing", "every"};
  static constexpr std::array kDocs{
      FieldDoc{"every", "days and a time of day: weekdays 22:00, day 03:30, mon,thu 06:00, month 00:15"},
      FieldDoc{"zone", "IANA name of the zone that the time is read in; empty: that of the owner, else UTC"},
      FieldDoc{"times", "how often in all; 0: until the date, else for a year"},
      FieldDoc{"until", "last date, such as 2026-12-31"},
      FieldDoc{"ahead", "how long before its window each is listed"}};
};

struct MissedListingView {
  Instant from{}, to{};
  std::string why{};
};
BOOST_DESCRIBE_STRUCT(MissedListingView, (), (from, to, why))

struct RecurringListingView {
  std::string id{};
  std::string owner{};  // Path.
  std::string device{};
  std::int64_t milli = 0;
  Money hourly{};
  Money floor{};
  std::string every{};
  std::string zone{};
  Duration ahead{};
  std::optional<Instant> next{};  // The window that is listed next.
  std::uint64_t left = 0;
  std::uint64_t listed = 0;
  std::uint64_t missed = 0;
  std::vector<std::string> orders{};        // Those that rest.
  std::vector<MissedListingView> misses{};  // The last ten.
};
BOOST_DESCRIBE_STRUCT(
    RecurringListingView,
    (),
    (id, owner, device, milli, hourly, floor, every, zone, ahead, next, left, listed, missed, orders, misses))
struct RecurringListingList {
  std::vector<RecurringListingView> items{};
};
BOOST_DESCRIBE_STRUCT(RecurringListingList, (), (items))

struct CertifyBody {
  DeviceId device{};
  NodeId node{};
  std::string owner{};
  std::string model{};
  std::string region{};
  bool accepted = false;
};
BOOST_DESCRIBE_STRUCT(CertifyBody, (), (device, node, owner, model, region, accepted))

struct MarketRulesBody {
  std::uint32_t fee_bps = 200;
  std::uint32_t bond_bps = 1000;
  std::uint32_t penalty_bps = 1000;
  std::uint32_t collar_percent = 0;
  Duration dispute = std::chrono::hours(24);
  Duration horizon = std::chrono::hours(24 * 90);
  Duration quote_for = std::chrono::minutes(1);
  Duration notice = std::chrono::minutes(15);
  bool named = false;
};
BOOST_DESCRIBE_STRUCT(
    MarketRulesBody,
    (),
    (fee_bps, bond_bps, penalty_bps, collar_percent, dispute, horizon, quote_for, notice, named))
template <>
struct Fields<MarketRulesBody> {
  static constexpr std::array kDocs{
      FieldDoc{"fee_bps", "of what a seller earns, in hundredths of a percent"},
      FieldDoc{"bond_bps", "set aside for every offer, of what it would bring"},
      FieldDoc{"penalty_bps", "of what is not delivered, from the bond"},
      FieldDoc{"collar_percent", "how far a price may be from the last one; 0: as far as it likes"},
      FieldDoc{"dispute", "what was earned is paid out after this"},
      FieldDoc{"horizon", "how far ahead is traded"},
      FieldDoc{"quote_for", "how long a quote is kept; 0s: none is"},
      FieldDoc{"notice", "how long before its end a seller says that he takes back what he sold"},
      FieldDoc{"named", "both sides of a contract learn who the other is"}};
};

struct ReclaimBody {
  std::optional<Instant> at{};
};
BOOST_DESCRIBE_STRUCT(ReclaimBody, (), (at))
template <>
struct Fields<ReclaimBody> {
  static constexpr std::array kDocs{
      FieldDoc{"at", "when the contract shall end; else as soon as the notice allows"}};
};

}  // namespace tranche::wire
