// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ledger: double entry in whole micro-units, one book for each currency. The balances of all accounts of
// a currency add up to zero at any time; what is held is set aside within a balance and cannot be spent
// twice.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_table.hpp"
#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"

namespace tranche::engine {

enum class AccountKind : std::uint8_t {
  kCredit = 1,  // What a party may spend: paid in, refunded, or paid out to it.
  kReceivable,  // What a party owes on invoices; below zero while it does.
  kPayable,     // What an owner has earned and does not have yet.
  kRevenue,
  kFees,
  kTaxes,
  kEscrow,  // Paid by a buyer, not yet earned by the seller.
  kRounding,
  kClearing,  // The world outside: below zero by what came in.
};
BOOST_DESCRIBE_ENUM(
    AccountKind, kCredit, kReceivable, kPayable, kRevenue, kFees, kTaxes, kEscrow, kRounding, kClearing)

// Three letters in 15 bits.
struct Currency {
  std::uint16_t code = 0;
  auto operator<=>(const Currency&) const = default;
  [[nodiscard]] static std::optional<Currency> of(std::string_view letters);
  [[nodiscard]] std::string text() const;
};

// Owner, kind and currency are in the id, so that an account needs no table of names.
struct AccountId {
  static constexpr std::string_view kIdPrefix = "acc_";
  std::uint64_t value = 0;
  auto operator<=>(const AccountId&) const = default;
  [[nodiscard]] static constexpr AccountId make(PartyId owner, AccountKind kind, Currency currency) {
    return {(owner.value << 19U) | (std::uint64_t{currency.code} << 4U) | static_cast<std::uint64_t>(kind)};
  }
  [[nodiscard]] constexpr PartyId owner() const { return {value >> 19U}; }
  [[nodiscard]] constexpr AccountKind kind() const { return static_cast<AccountKind>(value & 15U); }
  [[nodiscard]] constexpr Currency currency() const {
    return {static_cast<std::uint16_t>((value >> 4U) & 0x7FFFU)};
  }
};

struct PostingId {
  static constexpr std::string_view kIdPrefix = "pst_";
  std::uint64_t value = 0;
  auto operator<=>(const PostingId&) const = default;
};
struct HoldId {
  static constexpr std::string_view kIdPrefix = "hold_";
  std::uint64_t value = 0;
  auto operator<=>(const HoldId&) const = default;
};

struct Account {
  AccountId id{};
  Money balance{};
  Money held{};          // Of orders, bonds, meters and holds.
  Money overdraft{};     // How far below zero it may go; none unless somebody allowed it.
  bool bounded = false;  // Overdraft is forbidden to it, though not to others of its kind.
};
BOOST_DESCRIBE_STRUCT(Account, (), (id, balance, held, overdraft, bounded))

struct Leg {
  AccountId account{};
  Money amount{};
  bool operator==(const Leg&) const = default;
};
BOOST_DESCRIBE_STRUCT(Leg, (), (account, amount))

struct Posting {
  PostingId id{};
  Instant at{};
  std::string memo{};
  std::string reference{};  // Of the payment outside; used once.
  PostingId reverses{};
  PostingId reversed_by{};
  std::vector<Leg> legs{};
};
BOOST_DESCRIBE_STRUCT(Posting, (), (id, at, memo, reference, reverses, reversed_by, legs))

struct Hold {  // First phase of a payment. Ends by capture, by release, or by itself.
  HoldId id{};
  AccountId account{};
  Money amount{};
  Instant expires{};  // Zero: never by itself.
  std::string purpose{};
};
BOOST_DESCRIBE_STRUCT(Hold, (), (id, account, amount, expires, purpose))

struct Ledger {
  std::uint64_t next_posting = 1, next_hold = 1;
  IdTable<Account> accounts{};
  std::map<HoldId, Hold> holds{};
  std::map<PostingId, Posting> postings{};          // Those made by people: they can be reversed.
  std::map<std::string, PostingId> by_reference{};  // Rebuilt.
};

enum class LedgerFault : std::uint8_t { kNone, kUnbalanced, kMixedCurrencies, kOverdrawn, kTooLarge };

[[nodiscard]] bool is_bounded(AccountKind);  // Whether overdraft is forbidden to all of the kind,
[[nodiscard]] bool is_bounded(const Ledger&, AccountId);  // or to this one.
[[nodiscard]] const Account* find_account(const Ledger&, AccountId);
[[nodiscard]] Money balance(const Ledger&, AccountId);
[[nodiscard]] Money available(const Ledger&, AccountId);  // What could be spent or held now.

// Why legs cannot be posted; `freed` of the first leg's account counts as no longer held.
[[nodiscard]] LedgerFault fault_of(const Ledger&, std::span<const Leg>, Money freed = {});
[[nodiscard]] bool can_hold(const Ledger&, AccountId, Money);

// These cannot fail: decide() asked before. A posting that does not balance is a bug and stops the process.
void post(Ledger&, std::span<const Leg>);
void hold(Ledger&, AccountId, Money);
void release(Ledger&, AccountId, Money);

// Commands of people with the operator's rights; the nouns that charge post through the functions above.
struct TopUp {  // Money came in from outside.
  PartyId party{};
  Money amount{};
  std::string reference{};
  std::string memo{};
};
struct PostEntry {
  std::vector<Leg> legs{};
  std::string memo{};
  std::string reference{};
};
struct ReversePosting {
  PostingId posting{};
  std::string memo{};
};
struct Posted {
  PostingId id{};
  std::string memo{};
  std::string reference{};
  PostingId reverses{};
  std::vector<Leg> legs{};
};
BOOST_DESCRIBE_STRUCT(Posted, (), (id, memo, reference, reverses, legs))

struct SetOverdraft {
  PartyId party{};
  Money overdraft{};
  AccountKind kind = AccountKind::kCredit;
  bool bounded = true;  // False: it may go as far as it likes, where its kind may.
};
struct OverdraftSet {
  PartyId party{};
  AccountId account{};
  Money before{};
  Money after{};
  bool bounded = true;
};
BOOST_DESCRIBE_STRUCT(OverdraftSet, (), (party, account, before, after, bounded))

struct PlaceHold {
  PartyId party{};
  Money amount{};
  Instant expires{};
  std::string purpose{};
};
struct HoldPlaced {
  HoldId id{};
  AccountId account{};
  Money amount{};
  Instant expires{};
  std::string purpose{};
};
BOOST_DESCRIBE_STRUCT(HoldPlaced, (), (id, account, amount, expires, purpose))

struct EndHold {  // Captures a part, which may be nothing; the rest is free again.
  HoldId hold{};
  Money captured{};
  AccountId to{};
};
struct HoldEnded {
  HoldId id{};
  AccountId account{};
  Money amount{};
  Money captured{};
  AccountId to{};
};
BOOST_DESCRIBE_STRUCT(HoldEnded, (), (id, account, amount, captured, to))

}  // namespace tranche::engine
