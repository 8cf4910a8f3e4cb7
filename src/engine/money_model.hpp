// SPDX-License-Identifier: Apache-2.0
#pragma once
// An independent model of all that moves money, in exact fractions, for tests. It is told what happened (who
// traded how much, when, at which price; what ran for how long), and works out by itself what that must have
// moved, and that nothing was sold twice.
#include <boost/multiprecision/cpp_int.hpp>
#include <doctest/doctest.h>
#include <set>

#include "engine/billing.hpp"
#include "engine/market_world.hpp"

namespace tranche::engine {

using Exact = boost::multiprecision::cpp_rational;
using Whole = boost::multiprecision::cpp_int;

inline Whole floor_of(const Exact& value) {
  const Whole top = numerator(value);
  const Whole bottom = denominator(value);
  const Whole cut = top / bottom;
  return top < 0 && cut * bottom != top ? cut - 1 : cut;
}
inline Whole nearest_cents(const Exact& micros) {  // Half to even.
  const Exact cents = micros / 10'000;
  const Whole down = floor_of(cents);
  const Exact rest = cents - down;
  const bool up = rest > Exact(1, 2) || (rest == Exact(1, 2) && down % 2 != 0);
  return (up ? down + 1 : down) * 10'000;
}
inline Exact seconds_of(Duration length) {
  return Exact(length.count(), 1'000'000);
}

// What the platform owes to whom, worked out from the facts alone.
class Model {
 public:
  explicit Model(const MarketWorld& world) : world_(world) {}

  void see(const Events& events, Instant at) {
    for (const Event& event : events) std::visit([&](const auto& one) { see(one, at); }, event);
  }
  void paid_in(PartyId tenant, const Exact& amount) { move(clearing(), credit(tenant), amount); }

  // Every account has exactly what the model says; nothing appears or vanishes.
  void check() const {
    Exact sum = 0;
    const Ledger& ledger = world_.state.ledger;
    for (const std::uint64_t id : ledger.accounts.ids()) {
      const Account& account = *ledger.accounts.find(id);
      const auto balance = balances_.find(account.id);
      const auto held = held_.find(account.id);
      const bool same = account.balance.micros == (balance == balances_.end() ? Exact(0) : balance->second) &&
                        account.held.micros == (held == held_.end() ? Exact(0) : held->second);
      if (!same)
        FAIL("account " << account.id.owner().value << " kind " << int(account.id.kind()) << " differs");
      sum += account.balance.micros;
      if (is_bounded(account.id.kind()) && account.balance.micros < account.held.micros)
        FAIL("more is held than there is");
    }
    if (sum != 0) FAIL("money appeared or vanished: " << sum.str());
  }
  std::uint64_t charges = 0, settlements = 0, invoices = 0, fills = 0, quotes = 0, resales = 0, releases = 0;

 private:
  struct OrderTerms {
    PartyId tenant{};
    bool buys = false;
    Exact held = 0;
    Whole area = 0;  // Open, thousandths times slots.
    Whole price = 0;
  };
  // What is sold by the slot, and no more of it than there is: a device, or what somebody bought.
  struct Lot {
    DeviceId device{};
    ContractId bought{};
    auto operator<=>(const Lot&) const = default;
  };
  struct Cost {
    Instant from{};
    std::string what{};
    Whole amount = 0;
  };
  struct Deal {
    PartyId buyer{}, seller{};  // Tenants.
    Exact value = 0, bond = 0, earned = 0, fee = 0, refunded = 0, penalty = 0;
    Instant start{}, end{}, down{};
    Duration lost{};
    bool interruptible = false, over = false;
    std::vector<std::pair<Instant, Exact>> unpaid{};
    Lot lot{};
    std::uint32_t quantity = 0;
  };

  [[nodiscard]] AccountId account(PartyId owner, AccountKind kind) const {
    return world_.account(owner, kind);
  }
  [[nodiscard]] AccountId credit(PartyId tenant) const { return account(tenant, AccountKind::kCredit); }
  [[nodiscard]] AccountId clearing() const { return account(kPlatform, AccountKind::kClearing); }
  [[nodiscard]] PartyId tenant(PartyId party) const { return tenant_of(world_.state, party); }
  [[nodiscard]] const MarketRules& rules() const { return world_.state.market.rules; }
  void move(AccountId from, AccountId to, const Exact& amount) {
    balances_[from] -= amount;
    balances_[to] += amount;
  }

  template <class Other>
  void see(const Other&, Instant) {}

  // A share of the price for every microsecond of every thousandth; what is below a micro-unit is carried.
  // What is set aside for a meter is the engine's to choose; that it is set aside once is what is checked.
  void see(const MeterOpened& event, Instant) {
    holds_[event.plan.lease] = Exact(event.held.micros);
    held_[event.account] += Exact(event.held.micros);
  }
  void see(const Charged& event, Instant) {
    const Meter& meter = world_.state.meters.at(event.lease);
    Exact& total = metered_[event.lease];
    const Whole before = floor_of(total);
    total += price_of(meter.plan.milli, event.from, event.to, event.used);
    Whole due = floor_of(total) - before;
    if (event.amount.micros < 0) FAIL("a negative charge");
    if (event.exhausted && Whole(event.amount.micros) < due) {  // Nothing covered more: it stops there.
      due = event.amount.micros;
      total = Exact(before + due);
    }
    if (Whole(event.amount.micros) != due)
      FAIL("charged " << event.amount.micros << " instead of " << due.str());
    move(meter.account, account(kPlatform, AccountKind::kRevenue), Exact(due));
    held_[meter.account] += Exact(event.held.micros) - holds_.at(event.lease);
    holds_[event.lease] = Exact(event.held.micros);
    costs_[tenant(event.party)].push_back({event.from, meter.plan.model, due});
    ++charges;
  }
  void see(const MeterClosed& event, Instant) {
    held_[credit(tenant(event.party))] -= holds_.at(event.lease);
    holds_.erase(event.lease);
    if (event.credited != Money{}) FAIL("nothing failed here");
  }

  void see(const OrderPlaced& event, Instant) { place(event.order); }
  void place(const MarketOrder& order) {
    OrderTerms terms{.tenant = tenant(order.party),
                     .buys = order.side == Side::kBuy,
                     .area = Whole(order.open_area()),
                     .price = Whole(order.price)};
    const Exact value = Exact(terms.price * terms.area);
    terms.held = terms.buys ? value : -Exact(floor_of(-value * rules().bond_bps / 10'000));  // Rounded up.
    held_[credit(terms.tenant)] += terms.held;
    orders_[order.id] = std::move(terms);
  }
  void see(const OrderClosed& event, Instant) {
    const auto found = orders_.find(event.order);
    if (found == orders_.end()) return;
    held_[credit(found->second.tenant)] -= found->second.held;
    orders_.erase(found);
  }
  void see(const OrderRepriced& event,
           Instant) {  // A falling price needs a smaller bond, never a larger one.
    OrderTerms& terms = orders_.at(event.order);
    terms.price = event.price;
    const Exact needed = -Exact(floor_of(-Exact(terms.price * terms.area) * rules().bond_bps / 10'000));
    if (needed < terms.held) {
      held_[credit(terms.tenant)] -= terms.held - needed;
      terms.held = needed;
    }
  }
  // A part of an order's bond goes along with a part of what it offers; the last part takes the rest.
  Exact part_of(std::uint64_t id, const Whole& area) {
    OrderTerms& terms = orders_.at(id);
    const Exact part = area == terms.area ? terms.held : Exact(floor_of(terms.held * area / terms.area));
    terms.held -= part;
    terms.area -= area;
    return part;
  }
  void see(const OrderFilled& event, Instant at) {
    const Whole area = Whole(event.quantity) * event.slots;
    const PartyId buyer = orders_.at(event.buy).tenant;
    const PartyId seller = orders_.at(event.sell).tenant;
    if (buyer == seller) FAIL("a tenant traded with itself");
    Exact value = Exact(Whole(event.price) * area);
    const Duration gone = at - start_of(event.first_slot);
    if (gone > Duration{})
      value -= Exact(floor_of(Exact(Whole(event.price) * event.quantity) * gone.count() / kSlot.count()));
    OrderTerms& bid = orders_.at(event.buy);
    if (bid.price < event.price) FAIL("dearer than the buyer's limit");
    const Exact released =
        quoted_.contains(event.buy) ? Exact(Whole(event.price) * area) : Exact(bid.price * area);
    bid.held -= released;
    bid.area -= area;
    held_[credit(buyer)] -= released;
    move(credit(buyer), account(kPlatform, AccountKind::kEscrow), value);
    Deal deal{.buyer = buyer, .seller = seller, .value = value, .bond = part_of(event.sell, area)};
    deal.start = std::max(start_of(event.first_slot), at);
    deal.end = start_of(event.first_slot + event.slots);
    const Contract& contract = *world_.state.market.contracts.find(event.contract.value);
    deal.interruptible = world_.state.market.instruments[contract.book - 1].instrument.interruptible;
    const Piece& piece = *world_.state.market.pieces.find(contract.piece.value);
    deal.lot = {piece.bought == ContractId{} ? piece.device : DeviceId{}, piece.bought};
    deal.quantity = event.quantity;
    sell(deal.lot, event.first_slot, event.slots, event.quantity);
    check_held(deal);
    resales += piece.bought != ContractId{};
    deals_[event.contract.value] = std::move(deal);
    for (const std::uint64_t id : {event.buy, event.sell})
      if (orders_.at(id).area == 0) orders_.erase(id);
    ++fills;
  }

  // Nothing is sold twice, whatever was cancelled, cut short or given back before.
  void sell(const Lot& lot, std::int64_t first, std::uint32_t slots, std::uint32_t quantity) {
    std::map<std::int64_t, std::uint32_t>& sold = sold_[lot];
    sold.erase(sold.begin(), sold.lower_bound(world_.now_slot()));
    const auto most = lot.bought == ContractId{} ? 1000U : deals_.at(lot.bought.value).quantity;
    for (std::int64_t slot = first; slot < first + slots; ++slot)
      if ((sold[slot] += quantity) > most) FAIL("sold twice: slot " << slot);
  }
  void check_held(const Deal& deal) const {
    if (deal.lot.bought == ContractId{}) return;
    if (deals_.at(deal.lot.bought.value).end < deal.end) FAIL("sold on for longer than it was bought");
  }
  void give_back(const Deal& deal, Instant from) {
    for (auto& [slot, quantity] : sold_[deal.lot])
      if (slot >= slot_of(std::max(from, deal.start)) && start_of(slot) < deal.end) quantity -= deal.quantity;
  }

  void see(const QuoteKept& event, Instant) {
    Exact cost = 0;
    for (std::size_t i = 0; i < event.asks.size(); ++i) {
      const MarketOrder& ask = event.asks[i];
      const Whole area = Whole(ask.open_area());
      OrderTerms part = orders_.at(event.quote.asks[i].of);
      part.held = part_of(event.quote.asks[i].of, area);
      part.area = area;
      cost += Exact(Whole(ask.price) * area);
      orders_[ask.id] = part;
    }
    for (const QuotedAsk& one : event.quote.asks)
      if (const auto of = orders_.find(one.of); of != orders_.end() && of->second.area == 0)
        orders_.erase(of);
    OrderTerms bid{.tenant = tenant(event.party), .buys = true, .held = cost};
    bid.area = Whole(event.bid.open_area());
    bid.price = event.bid.price;
    held_[credit(bid.tenant)] += cost;
    orders_[event.bid.id] = bid;
    quoted_.insert(event.bid.id);
    kept_[event.quote.id.value] = event.quote;
    ++quotes;
  }
  void see(const QuoteEnded& event, Instant) {
    const Quote quote = kept_.at(event.quote.value);
    if (const auto bid = orders_.find(quote.bid); bid != orders_.end()) {
      held_[credit(bid->second.tenant)] -= bid->second.held;
      orders_.erase(bid);
    }
    for (const QuotedAsk& one : quote.asks) {  // What its seller took back meanwhile is gone with the quote.
      const auto part = orders_.find(one.ask);
      if (part == orders_.end() || world_.state.market.books.order(one.ask) != nullptr) continue;
      held_[credit(part->second.tenant)] -= part->second.held;
      orders_.erase(part);
    }
    kept_.erase(event.quote.value);
  }

  [[nodiscard]] static Duration lost_by(const Deal& deal, Instant at) {
    return deal.lost + (deal.down == Instant{} ? Duration{} : std::max(at - deal.down, Duration{}));
  }
  void see(const ContractInterrupted& event, Instant at) {
    Deal& deal = deals_.at(event.contract.value);
    deal.down = std::max(at, deal.start);
  }
  void see(const ContractResumed& event, Instant at) {
    Deal& deal = deals_.at(event.contract.value);
    deal.lost = lost_by(deal, std::min(at, deal.end));
    deal.down = {};
  }
  void see(const ContractSettled& event, Instant now) {
    Deal& deal = deals_.at(event.contract.value);
    // Its buyer may need no more of it: nothing of it comes back then.
    const bool given_back = event.state == ContractState::kCompleted && now < deal.end;
    const Instant at = given_back ? deal.end : std::clamp(now, deal.start, deal.end);
    const bool closing = event.state == ContractState::kDefaulted && at < deal.end;
    if (given_back || closing) give_back(deal, now);
    releases += given_back;
    const bool last = closing || at == deal.end;
    deal.over = last;
    const Exact whole = seconds_of(deal.end - deal.start);
    Duration lost = lost_by(deal, at);
    const Exact delivered = seconds_of(std::max(at - deal.start - lost, Duration{}));
    if (closing) lost += deal.end - at;
    const Exact earned = Exact(floor_of(deal.value * delivered / whole));
    const Exact refunded =
        last ? deal.value - earned : Exact(floor_of(deal.value * seconds_of(lost) / whole));
    const Duration fined = std::min(lost, rules().notice);
    const Exact base = deal.interruptible
                           ? std::min(refunded, Exact(floor_of(deal.value * seconds_of(fined) / whole)))
                           : refunded;
    const Exact penalty = std::min(Exact(floor_of(base * rules().penalty_bps / 10'000)), deal.bond);
    const Exact fee = Exact(floor_of(earned * rules().fee_bps / 10'000));
    const auto more = [](const Exact& total, Exact& so_far) {
      const Exact step = total > so_far ? Exact(total - so_far) : Exact(0);
      so_far += step;
      return step;
    };
    const Exact earns = more(earned, deal.earned);
    const Exact back = more(refunded, deal.refunded);
    const Exact charged = more(fee, deal.fee);
    const Exact before = deal.penalty;
    const Exact fine = more(penalty, deal.penalty);
    const AccountId escrow = account(kPlatform, AccountKind::kEscrow);
    move(escrow, account(deal.seller, AccountKind::kPayable), earns - charged);
    move(escrow, account(kPlatform, AccountKind::kFees), charged);
    move(escrow, credit(deal.buyer), back);
    move(credit(deal.seller), credit(deal.buyer), fine);
    held_[credit(deal.seller)] -= last ? deal.bond - before : fine;
    if (charged > 0) costs_[deal.seller].push_back({now, "fees", floor_of(charged)});
    deal.unpaid.emplace_back(now + rules().dispute, earns - charged);
    ++settlements;
  }
  void see(const ContractReclaimed& event, Instant) {
    Deal& deal = deals_.at(event.contract.value);
    if (deal.over) {  // Paid back before it began: what is left is that its seller may offer it again.
      deal.end = event.at;
      return;
    }
    const Exact whole = seconds_of(deal.end - deal.start);
    const Exact kept = Exact(floor_of(deal.value * seconds_of(event.at - deal.start) / whole));
    const Exact rest = deal.value - kept;
    const Exact bond = Exact(floor_of((deal.bond - deal.penalty) * seconds_of(deal.end - event.at) / whole));
    const Exact fine =
        deal.interruptible ? Exact(0) : std::min(Exact(floor_of(rest * rules().penalty_bps / 10'000)), bond);
    move(account(kPlatform, AccountKind::kEscrow), credit(deal.buyer), rest);
    move(credit(deal.seller), credit(deal.buyer), fine);
    held_[credit(deal.seller)] -= bond;
    give_back(deal, event.at);
    deal.bond -= bond;
    deal.value = kept;
    deal.end = event.at;
  }
  void see(const ContractPaidOut& event, Instant at) {
    Deal& deal = deals_.at(event.contract.value);
    Exact due = 0;
    std::erase_if(deal.unpaid, [&](const auto& one) {
      if (one.first > at) return false;
      due += one.second;
      return true;
    });
    move(account(deal.seller, AccountKind::kPayable), credit(deal.seller), due);
    if (world_.state.market.contracts.find(event.contract.value) == nullptr)
      deals_.erase(event.contract.value);
  }

  // What began before the end of the period, whenever that was heard of; the rest is for the next invoice.
  static std::map<std::string, Whole> taken_until(Instant end, std::vector<Cost>& costs) {
    std::map<std::string, Whole> lines;
    std::erase_if(costs, [&](const Cost& cost) {
      if (cost.from >= end) return false;
      lines[cost.what] += cost.amount;
      return true;
    });
    return lines;
  }

  // Whole cents of every line and of the tax on their sum; what they are above the exact sum is rounding.
  void see(const InvoiceIssued& event, Instant) {
    Exact net = 0;
    Exact exact = 0;
    for (const auto& [what, cost] : taken_until(event.invoice->document.to, costs_[event.party])) {
      net += Exact(nearest_cents(Exact(cost)));
      exact += Exact(cost);
    }
    const TaxTerms terms = tax_terms(world_.state, event.party, world_.clock);
    const Exact tax = Exact(nearest_cents(net * terms.rate_ppm / 1'000'000));
    if (Exact(event.invoice->document.total.micros) != net + tax) FAIL("an invoice over another total");
    const Exact amount = net - exact + tax;
    const AccountId from = credit(event.party);
    const Exact there = balances_[from] - held_[from];
    const Exact covered = amount <= 0 ? amount : std::min(amount, std::max(there, Exact(0)));
    balances_[from] -= covered;
    balances_[account(event.party, AccountKind::kReceivable)] -= amount - covered;
    balances_[account(kPlatform, AccountKind::kRounding)] += net - exact;
    balances_[account(kPlatform, AccountKind::kTaxes)] += tax;
    ++invoices;
  }

 public:
  void rate(Instant from, Whole micros) { rates_[from] = std::move(micros); }

 private:
  [[nodiscard]] Exact price_of(std::int64_t milli, Instant from, Instant to, std::int64_t) const {
    Exact sum = 0;
    for (auto rate = rates_.begin(); rate != rates_.end(); ++rate) {
      const auto next = std::next(rate);
      const Instant begin = std::max(from, rate->first);
      const Instant end = next == rates_.end() ? to : std::min(to, next->first);
      if (begin < end) sum += Exact(rate->second) * milli / 1000 * seconds_of(end - begin) / 3600;
    }
    return sum;
  }

  const MarketWorld& world_;
  std::map<AccountId, Exact> balances_, held_;
  std::map<std::uint64_t, OrderTerms> orders_;
  std::map<std::uint64_t, Deal> deals_;
  std::map<std::uint64_t, Quote> kept_;
  std::map<Lot, std::map<std::int64_t, std::uint32_t>> sold_;  // By slot.
  std::set<std::uint64_t> quoted_;
  std::map<LeaseId, Exact> metered_, holds_;
  std::map<Instant, Whole> rates_;
  std::map<PartyId, std::vector<Cost>> costs_;  // On no invoice yet.
};

}  // namespace tranche::engine
