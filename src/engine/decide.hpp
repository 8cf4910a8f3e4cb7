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
Decision decide(const State&, const Envelope&, const Actor&, const SetSku&);
Decision decide(const State&, const Envelope&, const Actor&, const ChangeSettings&);

Decision decide(const State&, const Envelope&, const Actor&, const AddNode&);
Decision decide(const State&, const Envelope&, const Actor&, const ChangeNode&);
Decision decide(const State&, const Envelope&, const Actor&, const RemoveNode&);
Decision decide(const State&, const Envelope&, const Actor&, const BookWindows&);
Decision decide(const State&, const Envelope&, const Actor&, const PlanMaintenance&);
Decision decide(const State&, const Envelope&, const Actor&, const CancelBooking&);

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
void apply(State&, const Envelope&, const JobStopRequested&);
void apply(State&, const Envelope&, const WindowsBooked&);
void apply(State&, const Envelope&, const BookingCancelled&);
void apply(State&, const Envelope&, const WindowOpened&);
void apply(State&, const Envelope&, const WindowClosed&);
void apply(State&, const Envelope&, const WindowMoved&);

}  // namespace tranche::engine
