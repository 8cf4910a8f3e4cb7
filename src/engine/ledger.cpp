// SPDX-License-Identifier: Apache-2.0
#include "engine/ledger.hpp"

#include "base/check.hpp"

namespace tranche::engine {
namespace {

// No sum of what came in and what may be overdrawn passes this, so that no balance can ever wrap.
constexpr std::int64_t kMost = INT64_MAX / 4;

Account& account_of(Ledger& ledger, AccountId id) {
  if (Account* account = ledger.accounts.find(id.value)) return *account;
  return ledger.accounts.insert(id.value, Account{.id = id});
}

std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  TRANCHE_CHECK(!__builtin_add_overflow(a, b, &sum));
  return sum;
}

// The balance that legs up to and including `last` lead to, for the account of `last`.
Int128 balance_after(const Ledger& ledger, std::span<const Leg> legs, std::size_t last) {
  Int128 total = balance(ledger, legs[last].account).micros;
  for (std::size_t i = 0; i <= last; ++i) {
    if (legs[i].account == legs[last].account) total += legs[i].amount.micros;
  }
  return total;
}

bool is_last_of_its_account(std::span<const Leg> legs, std::size_t at) {
  for (std::size_t i = at + 1; i < legs.size(); ++i) {
    if (legs[i].account == legs[at].account) return false;
  }
  return true;
}

}  // namespace

std::optional<Currency> Currency::of(std::string_view letters) {
  if (letters.size() != 3) return std::nullopt;
  std::uint16_t code = 0;
  for (const char letter : letters) {
    if (letter < 'A' || letter > 'Z') return std::nullopt;
    code = static_cast<std::uint16_t>(code * 32 + (letter - 'A' + 1));
  }
  return Currency{code};
}

std::string Currency::text() const {
  std::string out;
  for (const unsigned shift : {10U, 5U, 0U}) out += static_cast<char>('A' - 1 + ((code >> shift) & 31U));
  return out;
}

bool is_bounded(AccountKind kind) {
  return kind == AccountKind::kCredit || kind == AccountKind::kPayable || kind == AccountKind::kEscrow;
}

bool is_bounded(const Ledger& ledger, AccountId id) {
  if (is_bounded(id.kind())) return true;
  const Account* account = find_account(ledger, id);
  return account != nullptr && account->bounded;
}

const Account* find_account(const Ledger& ledger, AccountId id) {
  return ledger.accounts.find(id.value);
}

Money balance(const Ledger& ledger, AccountId id) {
  const Account* account = find_account(ledger, id);
  return account == nullptr ? Money{} : account->balance;
}

Money available(const Ledger& ledger, AccountId id) {
  const Account* account = find_account(ledger, id);
  if (account == nullptr) return {};
  return {account->balance.micros + account->overdraft.micros - account->held.micros};
}

LedgerFault fault_of(const Ledger& ledger, std::span<const Leg> legs, Money freed) {
  Int128 sum = 0;
  for (std::size_t i = 0; i < legs.size(); ++i) {
    sum += legs[i].amount.micros;
    if (legs[i].account.currency() != legs[0].account.currency()) return LedgerFault::kMixedCurrencies;
    if (!is_last_of_its_account(legs, i)) continue;
    const Int128 after = balance_after(ledger, legs, i);
    if (after > kMost || after < -kMost) return LedgerFault::kTooLarge;
    if (!is_bounded(ledger, legs[i].account) || after >= balance(ledger, legs[i].account).micros) continue;
    const Account* account = find_account(ledger, legs[i].account);
    const Int128 spare = account == nullptr ? 0 : Int128{account->overdraft.micros} - account->held.micros;
    if (after + spare + (i == 0 ? freed.micros : 0) < 0) return LedgerFault::kOverdrawn;
  }
  return sum == 0 && !legs.empty() ? LedgerFault::kNone : LedgerFault::kUnbalanced;
}

bool can_hold(const Ledger& ledger, AccountId id, Money amount) {
  return amount >= Money{} && amount <= available(ledger, id);
}

void post(Ledger& ledger, std::span<const Leg> legs) {
  Int128 sum = 0;
  for (const Leg& leg : legs) {
    Account& account = account_of(ledger, leg.account);
    account.balance.micros = checked_sum(account.balance.micros, leg.amount.micros);
    sum += leg.amount.micros;
  }
  TRANCHE_CHECK(sum == 0);
}

void hold(Ledger& ledger, AccountId id, Money amount) {
  Account& account = account_of(ledger, id);
  account.held.micros = checked_sum(account.held.micros, amount.micros);
}

void release(Ledger& ledger, AccountId id, Money amount) {
  Account& account = account_of(ledger, id);
  account.held.micros -= amount.micros;
  TRANCHE_CHECK(account.held.micros >= 0);
}

}  // namespace tranche::engine
