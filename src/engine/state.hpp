// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything the platform knows, as folded from the journal. Ordered containers: iteration is part of the
// contract.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/envelope.hpp"
#include "base/ids.hpp"
#include "engine/booking.hpp"
#include "engine/calendar.hpp"
#include "engine/capacity.hpp"
#include "engine/capacity_cost.hpp"
#include "engine/credit_note.hpp"
#include "engine/demand.hpp"
#include "engine/foretold.hpp"
#include "engine/health.hpp"
#include "engine/invoice.hpp"
#include "engine/job.hpp"
#include "engine/lease.hpp"
#include "engine/ledger.hpp"
#include "engine/local_calendar.hpp"
#include "engine/market.hpp"
#include "engine/metering.hpp"
#include "engine/node.hpp"
#include "engine/party.hpp"
#include "engine/platform.hpp"
#include "engine/price.hpp"
#include "engine/reconcile.hpp"
#include "engine/recurring_listing.hpp"
#include "engine/spend_book.hpp"
#include "engine/tax.hpp"
#include "engine/token.hpp"
#include "engine/volume.hpp"
#include "engine/workloads.hpp"

namespace tranche::engine {

struct Remembered {  // What an idempotency key led to: the record, which holds the answer.
  std::uint64_t sequence = 0;
  std::uint64_t body_hash = 0;
  Instant at{};
};
BOOST_DESCRIBE_STRUCT(Remembered, (), (sequence, body_hash, at))

constexpr std::uint64_t number_of(PartyId id) {  // Without its kind.
  return id.value >> 3U;
}

// Rebuilt by apply() and on load; outside snapshots and the state hash.
struct Indexes {
  // By number, because the tree is climbed for every command; a party stays where it is for ever.
  std::vector<const Party*> parties{};
  std::map<std::pair<PartyId, std::string>, PartyId> by_name{};
  std::map<TokenHash, TokenId> by_hash{};
  std::map<PartyId, std::vector<JobId>> jobs_by_owner{};
  std::map<std::string, NodeId> nodes_by_name{};
  // A memo, so decide() may use it up and put it back; what it holds follows from the state alone.
  std::unique_ptr<Capacity> capacity = std::make_unique<Capacity>();
  std::unique_ptr<Calendar> calendar = std::make_unique<Calendar>();
  std::unique_ptr<Demand> demand = std::make_unique<Demand>();
  std::unique_ptr<WorkIndex> work = std::make_unique<WorkIndex>();  // Likewise.
};

struct State {
  // Made, moved and destroyed in one place: a hundred maps are thousands of functions in every file that
  // would.
  State();
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();

  std::uint64_t sequence = 0;  // Of the last record applied.
  Instant now{};
  std::uint64_t next_party = 1, next_token = 1, next_job = 1;
  Settings settings{};
  std::map<std::string, Sku> skus{};
  std::map<PartyId, Party> parties{};
  std::map<TokenId, Token> tokens{};
  std::map<JobId, Job> jobs{};
  std::uint64_t next_node = 1, next_device = 1, next_lease = 1;
  std::map<NodeId, Node> nodes{};
  std::map<DeviceId, Device> devices{};
  std::map<LeaseId, Lease> leases{};
  std::map<RequestKey, Remembered> remembered{};
  std::uint64_t next_claim = 1;
  std::map<ClaimId, Booking> bookings{};
  Ledger ledger{};
  Market market{};
  std::vector<PriceList> prices{};             // By the time from which they hold.
  std::vector<CapacityCost> capacity_costs{};  // Likewise.
  std::map<LeaseId, Meter> meters{};
  std::map<PartyId, Spent> spent{};
  std::map<CostKey, CostLine> costs{};
  wire::Zones zones{};  // Those that parties name.
  Taxes taxes{};
  std::map<PartyId, Billing> billing{};
  std::map<InvoiceKey, Invoice> invoices{};
  std::map<CreditNoteKey, CreditNote> credit_notes{};
  std::uint64_t next_listing = 1;
  std::map<ListingId, RecurringListing> recurring_listings{};
  Health health{};
  std::map<std::uint64_t, Repair> repairs{};
  std::map<DeviceDayKey, DeviceDayUse> device_days{};
  std::map<VolumeId, Volume> volumes{};  // Those that are gone stay, with their receipts.
  Workloads work{};
  Foretold foretold{};
  Indexes index{};

  [[nodiscard]] const Party* party(PartyId id) const {
    const std::uint64_t number = number_of(id);
    const bool known = number < index.parties.size() && index.parties[number] != nullptr;
    return known && index.parties[number]->id == id ? index.parties[number] : nullptr;
  }
  Party& add_party(Party party);
  [[nodiscard]] const Job* job(JobId id) const;
  [[nodiscard]] const Token* token(TokenId id) const;
  [[nodiscard]] const Node* node(NodeId id) const;
  [[nodiscard]] const Device* device(DeviceId id) const;
  [[nodiscard]] const Lease* lease(LeaseId id) const;
  [[nodiscard]] const Booking* booking(ClaimId id) const;
  [[nodiscard]] PartyId child(PartyId parent, std::string_view name) const;  // Zero: none.
};

[[nodiscard]] std::string path_of(const State&, PartyId);  // "acme/research/ana"; "platform" for the root.
[[nodiscard]] PartyId find_path(const State&, std::string_view);  // An id or a path; zero: none.
[[nodiscard]] PartyId tenant_of(const State&, PartyId);  // The tenant it belongs to, else the platform.
[[nodiscard]] bool is_at_or_below(const State&, PartyId party, PartyId ancestor);

}  // namespace tranche::engine
