// SPDX-License-Identifier: Apache-2.0
#pragma once
// The exchange as the API shows it: prices for an hour of a device, windows as instants.
#include "base/result.hpp"
#include "engine/access.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"
#include "wire/api_market.hpp"
#include "wire/codec.hpp"

namespace tranche::api {

// Whether orders and contracts of a party on this side of the market are the actor's business.
[[nodiscard]] bool sees_trades(const engine::State&, const engine::Actor&, engine::Side, PartyId party);
[[nodiscard]] Money hourly(std::int64_t price);
[[nodiscard]] std::int64_t price_of(Money hourly, engine::Side side);  // A bid rounds down, an ask up.
[[nodiscard]] std::uint32_t slots_of(Duration length);                 // Rounded up.
[[nodiscard]] engine::Instrument instrument_of(const wire::InstrumentBody&);
[[nodiscard]] wire::InstrumentBody body_of(const engine::Instrument&);

// What the body asks to be listed, for the caller unless it names an owner.
[[nodiscard]] Result<engine::ListCapacity, wire::Problem> listing_of(const engine::State&,
                                                                     const wire::ListingBody&,
                                                                     PartyId caller);

[[nodiscard]] wire::BookView book_view(const engine::BookState&);
[[nodiscard]] wire::BookList books_view(const engine::State&);
[[nodiscard]] wire::DepthView depth_view(const engine::State&, std::uint64_t book, std::int64_t slot);
[[nodiscard]] wire::FillList fills_view(const engine::State&, std::uint64_t book);  // Newest first.
[[nodiscard]] wire::OrderView order_view(const engine::State&, const engine::MarketOrder&);
[[nodiscard]] wire::ContractView contract_view(const engine::State&, const engine::Contract&, bool buyer);
[[nodiscard]] wire::SellerView seller_view(const engine::State&, PartyId);  // Without his contracts.
void add_contract(wire::SellerView&, const engine::Contract&);
[[nodiscard]] wire::QuoteView quote_view(const engine::State&,
                                         engine::PlaceOrder,
                                         PartyId party,
                                         Instant now);
[[nodiscard]] wire::QuoteView quote_view(const engine::State&, const engine::Quote&);  // That is kept.
[[nodiscard]] wire::CandleList candles_view(const engine::BookState&, bool by_day);
[[nodiscard]] engine::PlaceOrder command_of(const wire::OrderBody&);

}  // namespace tranche::api
