// SPDX-License-Identifier: Apache-2.0
#pragma once
// Contracts: what a fill promises, from its start to the last micro-unit paid, refunded or forfeited.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"

namespace tranche::engine {

struct ContractId {
  static constexpr std::string_view kIdPrefix = "ctr_";
  std::uint64_t value = 0;
  auto operator<=>(const ContractId&) const = default;
};
struct PieceId {
  static constexpr std::string_view kIdPrefix = "cap_";
  std::uint64_t value = 0;
  auto operator<=>(const PieceId&) const = default;
};

struct ListingId {  // Of an offer that is made again and again.
  static constexpr std::string_view kIdPrefix = "lst_";
  std::uint64_t value = 0;
  auto operator<=>(const ListingId&) const = default;
};

enum class ContractState : std::uint8_t { kAgreed, kInterrupted, kCompleted, kDefaulted };
BOOST_DESCRIBE_ENUM(ContractState, kAgreed, kInterrupted, kCompleted, kDefaulted)

struct Payout {  // Earned, and paid out when its dispute window is over.
  Instant due{};
  Money amount{};
};
BOOST_DESCRIBE_STRUCT(Payout, (), (due, amount))

struct Contract {
  ContractId id{};
  std::uint64_t book = 0;
  PartyId buyer{}, seller{};
  PartyId buyer_pays{}, seller_pays{};  // Whose accounts stand for them.
  PieceId piece{};
  std::int64_t price = 0;
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
  std::uint32_t quantity = 0;
  std::uint8_t workload = 0;
  Instant start{}, end{};
  Money value{};
  Money bond{};
  Money earned{};    // Of the value: gone from escrow to the seller, its fee included.
  Money fee{};       // Of what was earned.
  Money refunded{};  // Of the value: gone back to the buyer.
  Money penalty{};   // Paid from the bond.
  Duration lost{};   // Not delivered so far.
  Instant down_since{};
  Instant settled{};
  ContractState state = ContractState::kAgreed;
  std::uint32_t resold = 0;  // Most thousandths that were offered again at once.
  std::vector<Payout> unpaid{};
  Duration reclaimed{};    // Cut off its end by the seller, who gave notice.
  bool withdrawn = false;  // Interrupted by the seller himself, not by a fault that may pass.
  // Of its delivery: in the buyer's costs so far. Contracts of before counted all of it when they were made.
  Duration counted = Duration::max();
  Instant look_at{};  // When somebody must look at it next; rebuilt, and in no record.
};
BOOST_DESCRIBE_STRUCT(Contract,
                      (),
                      (id,
                       book,
                       buyer,
                       seller,
                       buyer_pays,
                       seller_pays,
                       piece,
                       price,
                       first_slot,
                       slots,
                       quantity,
                       workload,
                       start,
                       end,
                       value,
                       bond,
                       earned,
                       fee,
                       refunded,
                       penalty,
                       lost,
                       down_since,
                       settled,
                       state,
                       resold,
                       unpaid,
                       reclaimed,
                       withdrawn,
                       counted))

struct Reliability {  // Thousandths times seconds.
  PartyId seller{};
  std::int64_t sold = 0;
  std::int64_t delivered = 0;
  // Of contracts that are paid out and forgotten.
  std::uint64_t contracts = 0;
  Money value{}, earned{}, fee{}, refunded{}, penalty{};
};
BOOST_DESCRIBE_STRUCT(Reliability,
                      (),
                      (seller, sold, delivered, contracts, value, earned, fee, refunded, penalty))

// The capacity behind a contract is gone: its node died, or its owner took it back. Equal capacity at no
// higher price is bought for the buyer at once where there is some; otherwise time stops counting.
struct InterruptContract {
  ContractId contract{};
};
struct ContractInterrupted {
  ContractId contract{};
  PartyId party{};
  bool withdrawn = false;
};
BOOST_DESCRIBE_STRUCT(ContractInterrupted, (), (contract, party, withdrawn))

// The seller takes back what is left after an instant, and says so in time.
struct ReclaimContract {
  ContractId contract{};
  Instant end{};  // Zero: as soon as the notice allows.
};
struct ContractReclaimed {
  ContractId contract{};
  PartyId party{};  // The seller.
  Instant at{};     // Its end from now on.
  Money refunded{};
  Money penalty{};
  Money released{};  // Of the bond, beside the penalty.
};
BOOST_DESCRIBE_STRUCT(ContractReclaimed, (), (contract, party, at, refunded, penalty, released))

// The buyer needs no more of it: all of its price is the seller's at once, who has the capacity back.
struct ReleaseContract {
  ContractId contract{};
};

struct ResumeContract {
  ContractId contract{};
};
struct ContractResumed {
  ContractId contract{};
  PartyId party{};
  Duration lost{};
};
BOOST_DESCRIBE_STRUCT(ContractResumed, (), (contract, party, lost))

// Money moves for what has passed since the last time. The last settlement has an end state.
struct ContractSettled {
  ContractId contract{};
  PartyId party{};  // The seller.
  ContractState state = ContractState::kAgreed;
  Money earned{};  // These four: since the last settlement.
  Money fee{};
  Money refunded{};
  Money penalty{};
  Duration lost{};  // In all.
};
BOOST_DESCRIBE_STRUCT(ContractSettled, (), (contract, party, state, earned, fee, refunded, penalty, lost))

struct ContractPaidOut {  // The dispute window is over: what was earned becomes credit.
  ContractId contract{};
  PartyId party{};
  Money amount{};
};
BOOST_DESCRIBE_STRUCT(ContractPaidOut, (), (contract, party, amount))

}  // namespace tranche::engine
