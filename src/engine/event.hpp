// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every command and every event of the engine.
#include <cstdint>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "engine/booking.hpp"
#include "engine/capacity_cost.hpp"
#include "engine/credit_note.hpp"
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
#include "engine/recurring_listing.hpp"
#include "engine/spend_book.hpp"
#include "engine/tax.hpp"
#include "engine/token.hpp"
#include "engine/volume.hpp"
#include "engine/workloads.hpp"

namespace tranche::engine {

// clang-format off
// Each command beside the name under which it stands in the audit log.
#define TRANCHE_COMMANDS(X) \
  X(Found, "platform.found") \
  X(CreateParty, "party.create") \
  X(ChangeParty, "party.change") \
  X(GrantRole, "role.grant") \
  X(RevokeRole, "role.revoke") \
  X(SetPassword, "password.set") \
  X(SetQuota, "quota.set") \
  X(SetRules, "rules.set") \
  X(IssueToken, "token.issue") \
  X(RevokeToken, "token.revoke") \
  X(OpenSession, "session.open") \
  X(SubmitJob, "job.submit") \
  X(StopJob, "job.stop") \
  X(ReleaseJob, "job.release") \
  X(PauseJob, "job.pause") \
  X(ResumeJob, "job.resume") \
  X(SetSku, "sku.set") \
  X(ChangeSettings, "settings.change") \
  X(NoteDenial, "denied") \
  X(Tick, "tick") \
  X(AddNode, "node.add") \
  X(JoinNode, "node.join") \
  X(ReportNode, "node.report") \
  X(LoseNode, "node.lose") \
  X(ChangeNode, "node.change") \
  X(RemoveNode, "node.remove") \
  X(ReportLease, "lease.report") \
  X(ReportMeters, "meter.report") \
  X(KeepReceipts, "receipts.keep") \
  X(NoteHealth, "health.note") \
  X(Schedule, "schedule") \
  X(BookWindows, "booking.book") \
  X(PlanMaintenance, "maintenance.plan") \
  X(CancelBooking, "booking.cancel") \
  X(TopUp, "account.top_up") \
  X(PostEntry, "ledger.post") \
  X(ReversePosting, "ledger.reverse") \
  X(SetOverdraft, "account.overdraft") \
  X(PlaceHold, "hold.place") \
  X(EndHold, "hold.end") \
  X(CreditInvoice, "invoice.credit") \
  X(SetTaxRate, "tax.rate") \
  X(SetTaxProfile, "tax.profile") \
  X(ResolveZone, "zone.resolve") \
  X(SetMarketRules, "market.rules") \
  X(CertifyCapacity, "market.certify") \
  X(ListCapacity, "market.list") \
  X(PlaceOrder, "market.order") \
  X(CancelOrder, "market.cancel") \
  X(KeepQuote, "market.quote") \
  X(TakeQuote, "market.take_quote") \
  X(DropQuote, "market.drop_quote") \
  X(SetRecurringListing, "market.list_recurring") \
  X(RemoveRecurringListing, "market.remove_recurring") \
  X(InterruptContract, "contract.interrupt") \
  X(ResumeContract, "contract.resume") \
  X(ReclaimContract, "contract.reclaim") \
  X(ReleaseContract, "contract.release") \
  X(SetPriceList, "price.set") \
  X(SetCapacityCost, "capacity.cost") \
  X(OpenMeter, "meter.open") \
  X(RecordUsage, "meter.record") \
  X(CloseMeter, "meter.close") \
  X(CreateVolume, "volume.create") \
  X(SnapshotVolume, "volume.snapshot") \
  X(RemoveVolume, "volume.remove") \
  X(KeepVolumeReceipt, "volume.receipt") \
  X(ChangeRepair, "repair.change") \
  X(TestNode, "node.test") \
  X(SetHealthPolicy, "health.policy") \
  X(SetBreaker, "health.breaker") \
  X(NoteProgress, "progress.note") \
  X(SetService, "service.set") \
  X(RemoveService, "service.remove") \
  X(AddReplica, "replica.add") \
  X(RetireReplica, "replica.retire") \
  X(CountRequests, "service.count") \
  X(SetRecurring, "recurring.set") \
  X(RemoveRecurring, "recurring.remove") \
  X(PlanRecurring, "recurring.plan") \
  X(SetLevel, "level.set") \
  X(RemoveLevel, "level.remove") \
  X(NoteForecast, "forecast.note") \
  X(OpenRepair, "repair.open")

// Each event beside its number. Numbers are written to disk: never change or reuse one. On disk an event is its
// number, then its described fields; fields are only ever appended, with a default.
// 1 to 39 tenancy, jobs and nodes; 40 to 59 bookings and health; 60 to 89 money and market; 90 to 92 volumes; 93 to 96
// and 105 to 109 workloads; 100 to 104 storage and held jobs; 120 to 139 money and market again; 140 to 149 slices that
// change, forecasts, paused jobs.
#define TRANCHE_EVENTS(X) \
  X(Founded, 1) \
  X(PartyCreated, 2) \
  X(PartyChanged, 3) \
  X(RoleGranted, 4) \
  X(RoleRevoked, 5) \
  X(PasswordSet, 6) \
  X(QuotaSet, 7) \
  X(RulesSet, 8) \
  X(TokenIssued, 9) \
  X(TokenRevoked, 10) \
  X(JobSubmitted, 11) \
  X(JobEnded, 12) \
  X(SkuSet, 13) \
  X(SettingsChanged, 14) \
  X(Denied, 15) \
  X(Ticked, 16) \
  X(NodeAdded, 17) \
  X(NodeInvitationUsed, 18) \
  X(NodeReported, 19) \
  X(NodeStateChanged, 20) \
  X(NodeChanged, 21) \
  X(DeviceStateChanged, 22) \
  X(LeaseGranted, 23) \
  X(LeaseRevoked, 24) \
  X(LeaseReported, 25) \
  X(UsageMetered, 26) \
  X(ReceiptsKept, 27) \
  X(HealthSignalled, 28) \
  X(JobRequeued, 29) \
  X(JobStopRequested, 30) \
  X(DeviceOrdered, 31) \
  X(DeviceMarked, 32) \
  X(RepairOpened, 33) \
  X(RepairChanged, 34) \
  X(HealthPolicySet, 35) \
  X(BreakerChanged, 36) \
  X(DevicesLeft, 37) \
  X(WindowsBooked, 40) \
  X(BookingCancelled, 41) \
  X(WindowOpened, 42) \
  X(WindowClosed, 43) \
  X(WindowMoved, 44) \
  X(WindowsChanged, 45) \
  X(Posted, 60) \
  X(OverdraftSet, 61) \
  X(HoldPlaced, 62) \
  X(HoldEnded, 63) \
  X(BudgetAlerted, 64) \
  X(MarketRulesSet, 65) \
  X(CapacityCertified, 66) \
  X(BookOpened, 67) \
  X(CapacityListed, 68) \
  X(OrderPlaced, 69) \
  X(OrderFilled, 70) \
  X(OrderClosed, 71) \
  X(OrderRepriced, 72) \
  X(ContractInterrupted, 73) \
  X(ContractResumed, 74) \
  X(ContractSettled, 75) \
  X(ContractPaidOut, 76) \
  X(PriceListSet, 77) \
  X(MeterOpened, 78) \
  X(Charged, 79) \
  X(MeterClosed, 80) \
  X(VolumeCreated, 90) \
  X(VolumeRemoved, 91) \
  X(VolumeWorked, 92) \
  X(GroupFormed, 46) \
  X(JobWaits, 47) \
  X(JobReleased, 48) \
  X(ServiceSet, 49) \
  X(ServiceRemoved, 50) \
  X(ReplicaAdded, 51) \
  X(ReplicaRetired, 52) \
  X(ServiceUsed, 53) \
  X(ChunkFormed, 54) \
  X(ChunkExtended, 88) \
  X(ProgressNoted, 55) \
  X(RecurringSet, 56) \
  X(RecurringRemoved, 57) \
  X(RecurringRan, 58) \
  X(LevelSet, 59) \
  X(LevelRemoved, 81) \
  X(LevelJudged, 82) \
  X(InvoiceCredited, 83) \
  X(RecurringListingSet, 84) \
  X(RecurringListingRan, 85) \
  X(RecurringListingRemoved, 86) \
  X(WindowShort, 87) \
  X(RecurringPlanned, 93) \
  X(CapacityCostSet, 97) \
  X(StorageCharged, 100) \
  X(JobHeld, 101) \
  X(HeldJobReleased, 102) \
  X(JobResized, 105) \
  X(ZoneResolved, 120) \
  X(TaxRateSet, 121) \
  X(TaxProfileSet, 122) \
  X(InvoiceIssued, 123) \
  X(QuoteKept, 124) \
  X(QuoteEnded, 125) \
  X(ContractReclaimed, 126) \
  X(SliceChangeAsked, 140) \
  X(SliceChanged, 141) \
  X(JobResliced, 142) \
  X(LeaseParkAsked, 143) \
  X(LeaseReturned, 144) \
  X(StartForetold, 145) \
  X(GuaranteeNoted, 146) \
  X(JobPauseRequested, 147) \
  X(JobPaused, 148) \
  X(JobResumed, 149)
// clang-format on

// A variant of so many alternatives is slow to compile wherever it is copied or destroyed, and almost every
// file of the engine does both. So the variants are dressed in classes whose special members live in
// event.cpp.
#define TRANCHE_ALTERNATIVE(Type, with) , Type
#define TRANCHE_MADE_FROM(Type, with) \
  TRANCHE_SELF(Type&&);               \
  TRANCHE_SELF(const Type&);
#define TRANCHE_SPECIAL_MEMBERS(Self) \
  Self();                             \
  Self(const Self&);                  \
  Self(Self&&) noexcept;              \
  Self& operator=(const Self&);       \
  Self& operator=(Self&&) noexcept;   \
  ~Self();

template <class None, class... Types>
using VariantWithoutFirst = std::variant<Types...>;
using CommandVariant = VariantWithoutFirst<void TRANCHE_COMMANDS(TRANCHE_ALTERNATIVE)>;
using EventVariant = VariantWithoutFirst<void TRANCHE_EVENTS(TRANCHE_ALTERNATIVE)>;

class Command : public CommandVariant {
 public:
  TRANCHE_SPECIAL_MEMBERS(Command)
#define TRANCHE_SELF Command
  TRANCHE_COMMANDS(TRANCHE_MADE_FROM)
#undef TRANCHE_SELF
};

class Event : public EventVariant {
 public:
  TRANCHE_SPECIAL_MEMBERS(Event)
#define TRANCHE_SELF Event
  TRANCHE_EVENTS(TRANCHE_MADE_FROM)
#undef TRANCHE_SELF
};

[[nodiscard]] std::string_view command_name(const Command&);

template <class E>
inline constexpr std::uint16_t kEventNumber = 0;
#define TRANCHE_NUMBER(Type, number) \
  template <>                        \
  inline constexpr std::uint16_t kEventNumber<Type> = number;
TRANCHE_EVENTS(TRANCHE_NUMBER)
#undef TRANCHE_NUMBER

using Events = std::vector<Event>;
using Decision = Result<Events, Refusal>;

}  // namespace tranche::engine
