// SPDX-License-Identifier: Apache-2.0
#pragma once
// The exchange: pieces of capacity that owners list, orders over them, and the books they meet in.
//
// A bid sets its full price aside before it rests, an ask its bond; so what is traded is paid, and what is
// promised is backed. Contracts, which fills become, have a file of their own.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/id_table.hpp"
#include "engine/contract.hpp"
#include "engine/ledger.hpp"
#include "engine/quote.hpp"
#include "policy/matching.hpp"
#include "wire/isolation.hpp"
#include "wire/workload.hpp"

namespace tranche::engine {

using policy::MarketOrder;
using policy::Side;
using policy::TimeInForce;

constexpr Duration kSlot = std::chrono::minutes(15);
// One micro-unit for a thousandth during a slot, as micro-units for a whole device and hour.
constexpr std::int64_t kPriceStep = 1000 * (std::chrono::hours(1) / kSlot);

constexpr std::int64_t slot_of(Instant at) {
  return std::chrono::floor<Duration>(at.time_since_epoch()).count() / kSlot.count();
}
constexpr Instant start_of(std::int64_t slot) {
  return Instant(kSlot * slot);
}

struct Instrument {  // What is traded, apart from when.
  std::string model{};
  std::string shape{};  // A partition profile; empty: a fraction of a device.
  std::string region{};
  wire::Isolation isolation = wire::Isolation::kSoft;
  bool interruptible = false;  // The owner may have it back without penalty.
  auto operator<=>(const Instrument&) const = default;
};
BOOST_DESCRIBE_STRUCT(Instrument, (), (model, shape, region, isolation, interruptible))

struct Audience {  // Who may take a piece, and for what. Nothing said: everyone, everything.
  std::vector<PartyId> parties{};
  std::vector<wire::WorkloadKind> kinds{};
  [[nodiscard]] bool open() const { return parties.empty() && kinds.empty(); }
};
BOOST_DESCRIBE_STRUCT(Audience, (), (parties, kinds))

struct Piece {  // A rectangle that its owner may sell: of a device, or of a contract it bought.
  PieceId id{};
  PartyId owner{};
  std::uint64_t book = 0;
  NodeId node{};
  DeviceId device{};
  ContractId bought{};  // Zero: of a device.
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
  std::uint32_t quantity = 0;
  Audience audience{};
  std::vector<std::uint32_t> promised{};  // Offered or sold, by slot.
  std::uint8_t start = 0;                 // Of a partition: the slot of the device that it begins at.
  [[nodiscard]] std::uint32_t free(std::int64_t first, std::uint32_t count) const;
};
BOOST_DESCRIBE_STRUCT(
    Piece,
    (),
    (id, owner, book, node, device, bought, first_slot, slots, quantity, audience, promised, start))

// A device as the exchange knows it: certified by the platform after its acceptance test.
struct Certified {
  DeviceId device{};
  NodeId node{};
  PartyId owner{};
  std::string model{};
  std::string region{};
  bool accepted = false;
};
BOOST_DESCRIBE_STRUCT(Certified, (), (device, node, owner, model, region, accepted))

// What a price did in an hour or a day, for those who were not there.
struct Candle {
  Instant start{};
  std::int64_t open = 0, high = 0, low = 0, close = 0;
  std::int64_t volume = 0;  // Thousandths times slots.
};
BOOST_DESCRIBE_STRUCT(Candle, (), (start, open, high, low, close, volume))

struct MarketRules {
  std::uint32_t fee_bps = 200;       // Of what a seller earns; hundredths of a percent.
  std::uint32_t bond_bps = 1000;     // Of what an ask would bring.
  std::uint32_t penalty_bps = 1000;  // Of what was not delivered; never more than the bond.
  std::uint32_t collar_percent = 0;  // How far a price may be from the last one; zero: as far as it likes.
  Duration dispute = std::chrono::hours(24);
  Duration horizon = std::chrono::hours(24 * 90);
  Duration quote_for = std::chrono::minutes(1);  // How long a quote is kept; zero: none is.
  Duration notice = std::chrono::minutes(15);    // Before a seller takes back what he sold.
  bool named = false;                            // Both sides of a contract learn who the other is.
};
BOOST_DESCRIBE_STRUCT(
    MarketRules,
    (),
    (fee_bps, bond_bps, penalty_bps, collar_percent, dispute, horizon, quote_for, notice, named))

struct BookState {
  std::uint64_t id = 0;
  Instrument instrument{};
  std::int64_t last = 0, day_open = 0, day_high = 0, day_low = 0;  // Prices; zero: nothing traded.
  std::int64_t day = 0;
  std::int64_t day_volume = 0;  // Thousandths times slots.
  std::vector<Candle> hours{};  // With trades, oldest first; the last may still run.
  std::vector<Candle> days{};
};
BOOST_DESCRIBE_STRUCT(BookState,
                      (),
                      (id, instrument, last, day_open, day_high, day_low, day, day_volume, hours, days))

struct Trade {  // For market data: nobody's name is in it.
  std::uint64_t book = 0;
  Instant at{};
  std::int64_t price = 0;
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
  std::uint32_t quantity = 0;
};
BOOST_DESCRIBE_STRUCT(Trade, (), (book, at, price, first_slot, slots, quantity))

struct Due {  // Ids by the time at which somebody must look at them; some may be gone by then.
  std::vector<std::uint64_t> ids{};  // In no order.
  std::size_t looked = 0;            // How far they were looked through for those that are gone.
};

struct Market {
  std::uint64_t next_order = 1, next_piece = 1, next_contract = 1;
  MarketRules rules{};
  policy::OrderBooks books{};
  std::vector<BookState> instruments{};  // Book n is at n - 1.
  IdTable<Piece> pieces{};
  std::map<DeviceId, Certified> certified{};
  IdTable<Contract> contracts{};
  std::map<PartyId, Reliability> reliability{};
  std::uint64_t next_quote = 1;
  std::map<QuoteId, Quote> quotes{};
  std::vector<Trade> trades{};  // The last thousand, as a ring.
  std::uint64_t trade_count = 0;
  // Rebuilt:
  std::map<Instrument, std::uint64_t> by_instrument{};
  std::map<std::int64_t, Due> orders_due{};  // By slot.
  std::map<Instant, std::vector<ContractId>> contracts_due{};
  std::map<std::int64_t, std::vector<PieceId>> pieces_due{};  // By slot: nobody needs them any more.
  std::map<DeviceId, std::vector<PieceId>> pieces_of{};
  std::set<std::uint64_t> decaying{};  // Asks whose price falls.
};

struct SetMarketRules {
  MarketRules rules{};
};
struct MarketRulesSet {
  MarketRules before{};
  MarketRules after{};
};
BOOST_DESCRIBE_STRUCT(MarketRulesSet, (), (before, after))

struct CertifyCapacity {
  Certified device{};
};
struct CapacityCertified {
  PartyId owner{};
  Certified device{};
};
BOOST_DESCRIBE_STRUCT(CapacityCertified, (), (owner, device))

// Offers capacity: makes a piece and places an ask for all of it.
struct ListCapacity {
  PartyId owner{};
  Instrument instrument{};
  DeviceId device{};
  ContractId bought{};  // Instead of a device: a part of what was bought.
  std::uint32_t quantity = 0;
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
  std::int64_t price = 0;
  std::int64_t floor = 0;
  std::uint32_t quantity_min = 0;
  std::uint32_t slots_min = 1;
  Audience audience{};
};
BOOST_DESCRIBE_STRUCT(ListCapacity,
                      (),
                      (owner,
                       instrument,
                       device,
                       bought,
                       quantity,
                       first_slot,
                       slots,
                       price,
                       floor,
                       quantity_min,
                       slots_min,
                       audience))
struct BookOpened {
  std::uint64_t book = 0;
  Instrument instrument{};
};
BOOST_DESCRIBE_STRUCT(BookOpened, (), (book, instrument))

struct CapacityListed {
  PartyId owner{};
  Piece piece{};
};
BOOST_DESCRIBE_STRUCT(CapacityListed, (), (owner, piece))

struct PlaceOrder {
  PartyId party{};
  std::uint64_t book = 0;  // Zero: the book of the instrument.
  Instrument instrument{};
  Side side = Side::kBuy;
  TimeInForce time_in_force = TimeInForce::kGtc;
  wire::WorkloadKind workload = wire::WorkloadKind::kBatch;
  std::int64_t price = 0;
  std::int64_t first_slot = 0;
  std::uint32_t slots = 1;
  std::uint32_t quantity = 0;
  std::uint32_t quantity_min = 0;
  std::uint32_t slots_min = 0;  // Zero: all of the window for a bid, one for an ask.
  Instant expires{};
  PieceId piece{};
  std::int64_t floor = 0;
};
struct OrderPlaced {
  PartyId party{};
  MarketOrder order{};
};
BOOST_DESCRIBE_STRUCT(OrderPlaced, (), (party, order))

struct OrderFilled {
  ContractId contract{};
  PartyId party{};  // The buyer.
  PartyId seller{};
  std::uint64_t buy = 0, sell = 0;
  std::int64_t price = 0;
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
  std::uint32_t quantity = 0;
  Money value{};     // What the buyer pays.
  Money released{};  // Of what the bid set aside: the value, and what was saved.
  Money bond{};      // Of the ask's bond, from now on the contract's.
};
BOOST_DESCRIBE_STRUCT(
    OrderFilled,
    (),
    (contract, party, seller, buy, sell, price, first_slot, slots, quantity, value, released, bond))

enum class CloseReason : std::uint8_t {
  kCancelled,
  kExpired,
  kNotFilled,
  kSelfTrade,
  kQuoteOver,  // The bid of a quote that nobody took up, or an ask taken back meanwhile.
  kTakenBack,  // Nobody bought it, and its owner's own work runs there.
};
BOOST_DESCRIBE_ENUM(CloseReason, kCancelled, kExpired, kNotFilled, kSelfTrade, kQuoteOver, kTakenBack)

struct CancelOrder {
  std::uint64_t order = 0;
};
struct OrderClosed {
  std::uint64_t order = 0;
  PartyId party{};
  CloseReason reason = CloseReason::kCancelled;
  std::uint64_t book = 0;
};
BOOST_DESCRIBE_STRUCT(OrderClosed, (), (order, party, reason, book))

struct OrderRepriced {  // An unsold ask falls towards its floor.
  std::uint64_t order = 0;
  PartyId party{};
  std::int64_t price = 0;
  Money held{};
};
BOOST_DESCRIBE_STRUCT(OrderRepriced, (), (order, party, price, held))

}  // namespace tranche::engine
