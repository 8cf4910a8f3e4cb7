// SPDX-License-Identifier: Apache-2.0
#pragma once
// The decide() and apply() of every noun, gathered for the dispatch in engine.cpp.
#include "base/envelope.hpp"
#include "engine/access.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Each sees an actor whose token is good; who he is was settled before.
Decision decide(const State&, const Envelope&, const Actor&, const CreateParty&);
Decision decide(const State&, const Envelope&, const Actor&, const ChangeParty&);
Decision decide(const State&, const Envelope&, const Actor&, const GrantRole&);
Decision decide(const State&, const Envelope&, const Actor&, const RevokeRole&);
Decision decide(const State&, const Envelope&, const Actor&, const SetPassword&);
Decision decide(const State&, const Envelope&, const Actor&, const SetQuota&);
Decision decide(const State&, const Envelope&, const Actor&, const SetRules&);
Decision decide(const State&, const Envelope&, const Actor&, const IssueToken&);
Decision decide(const State&, const Envelope&, const Actor&, const RevokeToken&);
Decision decide(const State&, const Envelope&, const Actor&, const SubmitJob&);
Decision decide(const State&, const Envelope&, const Actor&, const StopJob&);
Decision decide(const State&, const Envelope&, const Actor&, const ReleaseJob&);
Decision decide(const State&, const Envelope&, const Actor&, const PauseJob&);
Decision decide(const State&, const Envelope&, const Actor&, const ResumeJob&);
Decision decide(const State&, const Envelope&, const Actor&, const SetSku&);
Decision decide(const State&, const Envelope&, const Actor&, const ChangeSettings&);

Decision decide(const State&, const Envelope&, const Actor&, const AddNode&);
Decision decide(const State&, const Envelope&, const Actor&, const ChangeNode&);
Decision decide(const State&, const Envelope&, const Actor&, const RemoveNode&);
Decision decide(const State&, const Envelope&, const Actor&, const BookWindows&);
Decision decide(const State&, const Envelope&, const Actor&, const PlanMaintenance&);
Decision decide(const State&, const Envelope&, const Actor&, const CancelBooking&);
// Money and market.
Decision decide(const State&, const Envelope&, const Actor&, const TopUp&);
Decision decide(const State&, const Envelope&, const Actor&, const PostEntry&);
Decision decide(const State&, const Envelope&, const Actor&, const ReversePosting&);
Decision decide(const State&, const Envelope&, const Actor&, const SetOverdraft&);
Decision decide(const State&, const Envelope&, const Actor&, const PlaceHold&);
Decision decide(const State&, const Envelope&, const Actor&, const EndHold&);
Decision decide(const State&, const Envelope&, const Actor&, const CreditInvoice&);
Decision decide(const State&, const Envelope&, const Actor&, const SetTaxRate&);
Decision decide(const State&, const Envelope&, const Actor&, const SetTaxProfile&);
Decision decide(const State&, const Envelope&, const Actor&, const SetMarketRules&);
Decision decide(const State&, const Envelope&, const Actor&, const CertifyCapacity&);
Decision decide(const State&, const Envelope&, const Actor&, const ListCapacity&);
Decision decide(const State&, const Envelope&, const Actor&, const PlaceOrder&);
Decision decide(const State&, const Envelope&, const Actor&, const CancelOrder&);
Decision decide(const State&, const Envelope&, const Actor&, const KeepQuote&);
Decision decide(const State&, const Envelope&, const Actor&, const TakeQuote&);
Decision decide(const State&, const Envelope&, const Actor&, const DropQuote&);
Decision decide(const State&, const Envelope&, const Actor&, const SetRecurringListing&);
Decision decide(const State&, const Envelope&, const Actor&, const RemoveRecurringListing&);
Decision decide(const State&, const Envelope&, const Actor&, const InterruptContract&);
Decision decide(const State&, const Envelope&, const Actor&, const ResumeContract&);
Decision decide(const State&, const Envelope&, const Actor&, const ReclaimContract&);
Decision decide(const State&, const Envelope&, const Actor&, const ReleaseContract&);
Decision decide(const State&, const Envelope&, const Actor&, const SetPriceList&);
Decision decide(const State&, const Envelope&, const Actor&, const SetCapacityCost&);

// Health.
Decision decide(const State&, const Envelope&, const Actor&, const OpenRepair&);
Decision decide(const State&, const Envelope&, const Actor&, const ChangeRepair&);
Decision decide(const State&, const Envelope&, const Actor&, const TestNode&);
Decision decide(const State&, const Envelope&, const Actor&, const SetHealthPolicy&);
Decision decide(const State&, const Envelope&, const Actor&, const SetBreaker&);
Decision decide(const State&, const Envelope&, const Actor&, const CreateVolume&);
Decision decide(const State&, const Envelope&, const Actor&, const SnapshotVolume&);
Decision decide(const State&, const Envelope&, const Actor&, const RemoveVolume&);
// Workloads.
Decision decide(const State&, const Envelope&, const Actor&, const SetService&);
Decision decide(const State&, const Envelope&, const Actor&, const RemoveService&);
Decision decide(const State&, const Envelope&, const Actor&, const SetRecurring&);
Decision decide(const State&, const Envelope&, const Actor&, const RemoveRecurring&);
Decision decide(const State&, const Envelope&, const Actor&, const SetLevel&);
Decision decide(const State&, const Envelope&, const Actor&, const RemoveLevel&);

// These come from the platform itself and need no actor.
Decision decide(const State&, const Envelope&, const Found&);
Decision decide(const State&, const Envelope&, const OpenSession&);
Decision decide(const State&, const Envelope&, const NoteDenial&);
Decision decide(const State&, const Envelope&, const Tick&);
Decision decide(const State&, const Envelope&, const JoinNode&);
Decision decide(const State&, const Envelope&, const ReportNode&);
Decision decide(const State&, const Envelope&, const LoseNode&);
Decision decide(const State&, const Envelope&, const ReportLease&);
Decision decide(const State&, const Envelope&, const ReportMeters&);
Decision decide(const State&, const Envelope&, const KeepReceipts&);
Decision decide(const State&, const Envelope&, const NoteHealth&);
Decision decide(const State&, const Envelope&, const Schedule&);
Decision decide(const State&, const Envelope&, const OpenMeter&);
Decision decide(const State&, const Envelope&, const RecordUsage&);
Decision decide(const State&, const Envelope&, const CloseMeter&);
Decision decide(const State&, const Envelope&, const KeepVolumeReceipt&);
Decision decide(const State&, const Envelope&, const NoteProgress&);
Decision decide(const State&, const Envelope&, const AddReplica&);
Decision decide(const State&, const Envelope&, const RetireReplica&);
Decision decide(const State&, const Envelope&, const CountRequests&);
Decision decide(const State&, const Envelope&, const PlanRecurring&);
Decision decide(const State&, const Envelope&, const ResolveZone&);
Decision decide(const State&, const Envelope&, const NoteForecast&);

void apply(State&, const Envelope&, const Founded&);
void apply(State&, const Envelope&, const PartyCreated&);
void apply(State&, const Envelope&, const PartyChanged&);
void apply(State&, const Envelope&, const RoleGranted&);
void apply(State&, const Envelope&, const RoleRevoked&);
void apply(State&, const Envelope&, const PasswordSet&);
void apply(State&, const Envelope&, const QuotaSet&);
void apply(State&, const Envelope&, const RulesSet&);
void apply(State&, const Envelope&, const TokenIssued&);
void apply(State&, const Envelope&, const TokenRevoked&);
void apply(State&, const Envelope&, const JobSubmitted&);
void apply(State&, const Envelope&, const JobEnded&);
void apply(State&, const Envelope&, const SkuSet&);
void apply(State&, const Envelope&, const SettingsChanged&);
void apply(State&, const Envelope&, const Denied&);
void apply(State&, const Envelope&, const Ticked&);
void apply(State&, const Envelope&, const NodeAdded&);
void apply(State&, const Envelope&, const NodeInvitationUsed&);
void apply(State&, const Envelope&, const NodeReported&);
void apply(State&, const Envelope&, const NodeStateChanged&);
void apply(State&, const Envelope&, const NodeChanged&);
void apply(State&, const Envelope&, const DeviceStateChanged&);
void apply(State&, const Envelope&, const LeaseGranted&);
void apply(State&, const Envelope&, const LeaseRevoked&);
void apply(State&, const Envelope&, const LeaseReported&);
void apply(State&, const Envelope&, const UsageMetered&);
void apply(State&, const Envelope&, const ReceiptsKept&);
void apply(State&, const Envelope&, const HealthSignalled&);
void apply(State&, const Envelope&, const JobRequeued&);
void apply(State&, const Envelope&, const JobResized&);
void apply(State&, const Envelope&, const JobResliced&);
void apply(State&, const Envelope&, const SliceChangeAsked&);
void apply(State&, const Envelope&, const SliceChanged&);
void apply(State&, const Envelope&, const LeaseParkAsked&);
void apply(State&, const Envelope&, const LeaseReturned&);
void apply(State&, const Envelope&, const StartForetold&);
void apply(State&, const Envelope&, const JobStopRequested&);
void apply(State&, const Envelope&, const JobHeld&);
void apply(State&, const Envelope&, const HeldJobReleased&);
void apply(State&, const Envelope&, const JobPauseRequested&);
void apply(State&, const Envelope&, const JobPaused&);
void apply(State&, const Envelope&, const JobResumed&);
void apply(State&, const Envelope&, const WindowsBooked&);
void apply(State&, const Envelope&, const BookingCancelled&);
void apply(State&, const Envelope&, const WindowOpened&);
void apply(State&, const Envelope&, const WindowClosed&);
void apply(State&, const Envelope&, const WindowMoved&);
void apply(State&, const Envelope&, const WindowsChanged&);
void apply(State&, const Envelope&, const WindowShort&);

// Money and market.
void apply(State&, const Envelope&, const Posted&);
void apply(State&, const Envelope&, const OverdraftSet&);
void apply(State&, const Envelope&, const HoldPlaced&);
void apply(State&, const Envelope&, const HoldEnded&);
void apply(State&, const Envelope&, const InvoiceCredited&);
void apply(State&, const Envelope&, const InvoiceIssued&);
void apply(State&, const Envelope&, const TaxRateSet&);
void apply(State&, const Envelope&, const TaxProfileSet&);
void apply(State&, const Envelope&, const ZoneResolved&);
void apply(State&, const Envelope&, const BudgetAlerted&);
void apply(State&, const Envelope&, const MarketRulesSet&);
void apply(State&, const Envelope&, const CapacityCertified&);
void apply(State&, const Envelope&, const BookOpened&);
void apply(State&, const Envelope&, const CapacityListed&);
void apply(State&, const Envelope&, const OrderPlaced&);
void apply(State&, const Envelope&, const OrderFilled&);
void apply(State&, const Envelope&, const OrderClosed&);
void apply(State&, const Envelope&, const OrderRepriced&);
void apply(State&, const Envelope&, const QuoteKept&);
void apply(State&, const Envelope&, const QuoteEnded&);
void apply(State&, const Envelope&, const RecurringListingSet&);
void apply(State&, const Envelope&, const RecurringListingRan&);
void apply(State&, const Envelope&, const RecurringListingRemoved&);
void apply(State&, const Envelope&, const ContractInterrupted&);
void apply(State&, const Envelope&, const ContractResumed&);
void apply(State&, const Envelope&, const ContractReclaimed&);
void apply(State&, const Envelope&, const ContractSettled&);
void apply(State&, const Envelope&, const ContractPaidOut&);
void apply(State&, const Envelope&, const PriceListSet&);
void apply(State&, const Envelope&, const CapacityCostSet&);
void apply(State&, const Envelope&, const MeterOpened&);
void apply(State&, const Envelope&, const Charged&);
void apply(State&, const Envelope&, const MeterClosed&);
void apply(State&, const Envelope&, const VolumeCreated&);
void apply(State&, const Envelope&, const VolumeRemoved&);
void apply(State&, const Envelope&, const VolumeWorked&);
void apply(State&, const Envelope&, const StorageCharged&);

// Health.
void apply(State&, const Envelope&, const DeviceOrdered&);
void apply(State&, const Envelope&, const DevicesLeft&);
void apply(State&, const Envelope&, const DeviceMarked&);
void apply(State&, const Envelope&, const RepairOpened&);
void apply(State&, const Envelope&, const RepairChanged&);
void apply(State&, const Envelope&, const HealthPolicySet&);
void apply(State&, const Envelope&, const BreakerChanged&);

// Workloads.
void apply(State&, const Envelope&, const ProgressNoted&);
void apply(State&, const Envelope&, const GroupFormed&);
void apply(State&, const Envelope&, const ChunkFormed&);
void apply(State&, const Envelope&, const ChunkExtended&);
void apply(State&, const Envelope&, const JobWaits&);
void apply(State&, const Envelope&, const JobReleased&);
void apply(State&, const Envelope&, const ServiceSet&);
void apply(State&, const Envelope&, const RecurringSet&);
void apply(State&, const Envelope&, const RecurringRemoved&);
void apply(State&, const Envelope&, const RecurringRan&);
void apply(State&, const Envelope&, const RecurringPlanned&);
void apply(State&, const Envelope&, const LevelSet&);
void apply(State&, const Envelope&, const LevelRemoved&);
void apply(State&, const Envelope&, const LevelJudged&);
void apply(State&, const Envelope&, const GuaranteeNoted&);
void apply(State&, const Envelope&, const ServiceRemoved&);
void apply(State&, const Envelope&, const ReplicaAdded&);
void apply(State&, const Envelope&, const ReplicaRetired&);
void apply(State&, const Envelope&, const ServiceUsed&);

// Chunks to form, groups to end, waiters to release: at most one new job a decision, because admission counts
// what the state holds. Empty: nothing is due.
Events advance_workloads(const State&, const Envelope&);
Events run_recurring(const State&, const Envelope&, const RecurringJob&);
Events list_again(const State&, const Envelope&, const RecurringListing&);
Events judge_levels(const State&, JobId);
// A window that closes: whether what was booked was there.
Events judge_levels(const State&, const Booking&, const BookedWindow&, Instant now);
// An hour of a service that is over: whether its requests were answered in time.
Events judge_levels(const State&, const Service&);
// Of the month that runs, with today as far as it has come; and of the last one before it that counted.
LevelMonth running_month(const State&, const ServiceLevel&);
LevelMonth month_before(const State&, const ServiceLevel&);
std::vector<LevelRisk> levels_at_risk(const State&, const ServiceLevel&, std::size_t most);
// Of a job that is being stopped: also its chunks.
void append_stop(const State&, const Job&, Events&);

}  // namespace tranche::engine
