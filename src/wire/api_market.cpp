// SPDX-License-Identifier: Apache-2.0
#include "wire/api_market.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::BookList);
TRANCHE_WIRE_JSON(tranche::wire::DepthView);
TRANCHE_WIRE_JSON(tranche::wire::FillList);
TRANCHE_WIRE_JSON(tranche::wire::MarketTrade);
TRANCHE_WIRE_JSON(tranche::wire::MarketTop);
TRANCHE_WIRE_JSON(tranche::wire::OrderBody);
TRANCHE_WIRE_JSON(tranche::wire::QuoteView);
TRANCHE_WIRE_JSON(tranche::wire::OrderList);
TRANCHE_WIRE_JSON(tranche::wire::OrderOutcome);
TRANCHE_WIRE_JSON(tranche::wire::ContractList);
TRANCHE_WIRE_JSON(tranche::wire::SellerList);
TRANCHE_WIRE_JSON(tranche::wire::ListingBody);
TRANCHE_WIRE_JSON(tranche::wire::RecurringListingBody);
TRANCHE_WIRE_JSON(tranche::wire::RecurringListingView);
TRANCHE_WIRE_JSON(tranche::wire::RecurringListingList);
TRANCHE_WIRE_JSON(tranche::wire::CertifyBody);
TRANCHE_WIRE_JSON(tranche::wire::MarketRulesBody);
TRANCHE_WIRE_JSON(tranche::wire::CandleList);
TRANCHE_WIRE_JSON(tranche::wire::ReclaimBody);
