// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of the ledger itself: accounts, entries that people made, holds.
#include <array>
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"

namespace tranche::wire {

struct LedgerAccountView {
  std::string party{};
  std::string kind{};  // credit, receivable, payable, revenue, fees, taxes, escrow, rounding, clearing
  std::string currency{};
  Money balance{};
  Money held{};
  Money overdraft{};
  bool bounded = false;  // It may not go below minus its overdraft.
};
BOOST_DESCRIBE_STRUCT(LedgerAccountView, (), (party, kind, currency, balance, held, overdraft, bounded))
struct LedgerAccounts {
  std::vector<LedgerAccountView> items{};
  Money sum{};  // Of all balances: zero, at any time.
};
BOOST_DESCRIBE_STRUCT(LedgerAccounts, (), (items, sum))

struct LegBody {
  std::string party{};
  std::string kind = "credit";
  Money amount{};
};
BOOST_DESCRIBE_STRUCT(LegBody, (), (party, kind, amount))
template <>
struct Fields<LegBody> {
  static constexpr std::array<std::string_view, 2> kRequired{"party", "amount"};
  static constexpr std::array kDocs{
      FieldDoc{"party", "id or path; platform for its own accounts"},
      FieldDoc{"amount", "above zero: the account gets it; below: it gives it"}};
};
struct PostingBody {
  std::vector<LegBody> legs{};
  std::string memo{};
  std::string reference{};
};
BOOST_DESCRIBE_STRUCT(PostingBody, (), (legs, memo, reference))
template <>
struct Fields<PostingBody> {
  static constexpr std::array<std::string_view, 2> kRequired{"legs", "memo"};
  static constexpr std::array kDocs{FieldDoc{"legs", "two or more, which add up to zero"},
                                    FieldDoc{"memo", "why"},
                                    FieldDoc{"reference", "of a document outside; the same one counts once"}};
};
struct PostingView {
  std::string id{};
  Instant at{};
  std::string memo{};
  std::string reference{};
  std::string reverses{};
  std::string reversed_by{};
  std::vector<LegBody> legs{};
};
BOOST_DESCRIBE_STRUCT(PostingView, (), (id, at, memo, reference, reverses, reversed_by, legs))
struct PostingList {
  std::vector<PostingView> items{};
};
BOOST_DESCRIBE_STRUCT(PostingList, (), (items))
struct ReverseBody {
  std::string memo{};
};
BOOST_DESCRIBE_STRUCT(ReverseBody, (), (memo))

struct HoldBody {
  std::string party{};
  Money amount{};
  Duration expires_in{};
  std::string purpose{};
};
BOOST_DESCRIBE_STRUCT(HoldBody, (), (party, amount, expires_in, purpose))
template <>
struct Fields<HoldBody> {
  static constexpr std::array<std::string_view, 2> kRequired{"party", "amount"};
  static constexpr std::array kDocs{FieldDoc{"expires_in", "it ends by itself then; 0s: never"}};
};
struct HoldView {
  std::string id{};
  std::string party{};
  Money amount{};
  std::optional<Instant> expires{};
  std::string purpose{};
};
BOOST_DESCRIBE_STRUCT(HoldView, (), (id, party, amount, expires, purpose))
struct HoldList {
  std::vector<HoldView> items{};
};
BOOST_DESCRIBE_STRUCT(HoldList, (), (items))
struct EndHoldBody {
  Money captured{};
  std::string party = "platform";
  std::string kind = "revenue";
};
BOOST_DESCRIBE_STRUCT(EndHoldBody, (), (captured, party, kind))
template <>
struct Fields<EndHoldBody> {
  static constexpr std::array kDocs{FieldDoc{"captured", "what is paid of it; the rest is free again"},
                                    FieldDoc{"party", "who gets what is paid"},
                                    FieldDoc{"kind", "and on which of his accounts"}};
};

struct OweLimitBody {
  std::optional<Money> limit{};
};
BOOST_DESCRIBE_STRUCT(OweLimitBody, (), (limit))
template <>
struct Fields<OweLimitBody> {
  static constexpr std::array kDocs{
      FieldDoc{"limit", "the most that may be owed by invoice; absent: as much as spend limits allow"}};
};

}  // namespace tranche::wire
