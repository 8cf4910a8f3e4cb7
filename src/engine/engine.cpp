// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <concepts>

#include "base/check.hpp"
#include "engine/decide.hpp"

namespace tranche::engine {
namespace {

Refusal bad_token() {
  return {.reason = Reason::kForbidden,
          .rule = "token",
          .message = "the token has run out or was revoked",
          .fix = "log in again: tranche login"};
}

template <class T>
concept NeedsNoActor =
    std::same_as<T, Found> || std::same_as<T, OpenSession> || std::same_as<T, NoteDenial> ||
    std::same_as<T, Tick> || std::same_as<T, JoinNode> || std::same_as<T, ReportNode> ||
    std::same_as<T, LoseNode> || std::same_as<T, ReportLease> || std::same_as<T, ReportMeters> ||
    std::same_as<T, KeepReceipts> || std::same_as<T, NoteHealth> || std::same_as<T, Schedule> ||
    std::same_as<T, OpenMeter> || std::same_as<T, RecordUsage> || std::same_as<T, CloseMeter> ||
    std::same_as<T, KeepVolumeReceipt>;

PartyId party_of(const Command& command) {
  return std::visit(
      [](const auto& value) -> PartyId {
        if constexpr (requires { value.party; }) return value.party;
        if constexpr (requires { value.parent; }) return value.parent;
        if constexpr (requires { value.at; }) return value.at;
        if constexpr (requires { value.owner; }) return value.owner;
        return {};
      },
      command);
}

}  // namespace

std::string_view command_name(const Command& command) {
  struct Names {
    std::string_view operator()(const Found&) const { return "platform.found"; }
    std::string_view operator()(const CreateParty&) const { return "party.create"; }
    std::string_view operator()(const ChangeParty&) const { return "party.change"; }
    std::string_view operator()(const GrantRole&) const { return "role.grant"; }
    std::string_view operator()(const RevokeRole&) const { return "role.revoke"; }
    std::string_view operator()(const SetPassword&) const { return "password.set"; }
    std::string_view operator()(const SetQuota&) const { return "quota.set"; }
    std::string_view operator()(const SetRules&) const { return "rules.set"; }
    std::string_view operator()(const IssueToken&) const { return "token.issue"; }
    std::string_view operator()(const RevokeToken&) const { return "token.revoke"; }
    std::string_view operator()(const OpenSession&) const { return "session.open"; }
    std::string_view operator()(const SubmitJob&) const { return "job.submit"; }
    std::string_view operator()(const StopJob&) const { return "job.stop"; }
    std::string_view operator()(const SetSku&) const { return "sku.set"; }
    std::string_view operator()(const ChangeSettings&) const { return "settings.change"; }
    std::string_view operator()(const NoteDenial&) const { return "denied"; }
    std::string_view operator()(const Tick&) const { return "tick"; }
    std::string_view operator()(const AddNode&) const { return "node.add"; }
    std::string_view operator()(const JoinNode&) const { return "node.join"; }
    std::string_view operator()(const ReportNode&) const { return "node.report"; }
    std::string_view operator()(const LoseNode&) const { return "node.lose"; }
    std::string_view operator()(const ChangeNode&) const { return "node.change"; }
    std::string_view operator()(const RemoveNode&) const { return "node.remove"; }
    std::string_view operator()(const ReportLease&) const { return "lease.report"; }
    std::string_view operator()(const ReportMeters&) const { return "meter.report"; }
    std::string_view operator()(const KeepReceipts&) const { return "receipts.keep"; }
    std::string_view operator()(const NoteHealth&) const { return "health.note"; }
    std::string_view operator()(const Schedule&) const { return "schedule"; }
    std::string_view operator()(const TopUp&) const { return "account.top_up"; }
    std::string_view operator()(const PostEntry&) const { return "ledger.post"; }
    std::string_view operator()(const ReversePosting&) const { return "ledger.reverse"; }
    std::string_view operator()(const SetOverdraft&) const { return "account.overdraft"; }
    std::string_view operator()(const PlaceHold&) const { return "hold.place"; }
    std::string_view operator()(const EndHold&) const { return "hold.end"; }
    std::string_view operator()(const SetMarketRules&) const { return "market.rules"; }
    std::string_view operator()(const CertifyCapacity&) const { return "market.certify"; }
    std::string_view operator()(const ListCapacity&) const { return "market.list"; }
    std::string_view operator()(const PlaceOrder&) const { return "market.order"; }
    std::string_view operator()(const CancelOrder&) const { return "market.cancel"; }
    std::string_view operator()(const InterruptContract&) const { return "contract.interrupt"; }
    std::string_view operator()(const ResumeContract&) const { return "contract.resume"; }
    std::string_view operator()(const SetPriceList&) const { return "price.set"; }
    std::string_view operator()(const OpenMeter&) const { return "meter.open"; }
    std::string_view operator()(const RecordUsage&) const { return "meter.record"; }
    std::string_view operator()(const CloseMeter&) const { return "meter.close"; }
    std::string_view operator()(const CreateVolume&) const { return "volume.create"; }
    std::string_view operator()(const SnapshotVolume&) const { return "volume.snapshot"; }
    std::string_view operator()(const RemoveVolume&) const { return "volume.remove"; }
    std::string_view operator()(const KeepVolumeReceipt&) const { return "volume.receipt"; }
  };
  return std::visit(Names{}, command);
}

Decision decide(const State& state, const Envelope& envelope, const Command& command) {
  return std::visit(
      [&](const auto& value) -> Decision {
        if constexpr (NeedsNoActor<std::decay_t<decltype(value)>>) {
          return decide(state, envelope, value);
        } else {
          const auto actor = actor_of(state, envelope);
          if (!actor) return refuse(bad_token());
          return decide(state, envelope, *actor, value);
        }
      },
      command);
}

void apply(State& state, const Envelope& envelope, const Event& event) {
  std::visit([&](const auto& value) { apply(state, envelope, value); }, event);
}

void apply_record(State& state, std::uint64_t sequence, const Envelope& envelope, const Events& events) {
  TRANCHE_CHECK(sequence == state.sequence + 1);
  TRANCHE_CHECK(envelope.at >= state.now);
  state.sequence = sequence;
  state.now = envelope.at;
  for (const Event& event : events) apply(state, envelope, event);
  if (envelope.idempotency != RequestKey{}) {
    state.remembered.emplace(envelope.idempotency, Remembered{sequence, envelope.body_hash, envelope.at});
  }
}

Denied denial(const Envelope& envelope, const Command& command, const Refusal& refusal) {
  const PartyId about = party_of(command);
  return {.action = std::string(command_name(command)),
          .about = about == PartyId{} ? envelope.actor : about,
          .refusal = refusal};
}

const Remembered* remembered(const State& state, const Envelope& envelope) {
  if (envelope.idempotency == RequestKey{}) return nullptr;
  const auto found = state.remembered.find(envelope.idempotency);
  return found == state.remembered.end() ? nullptr : &found->second;
}

}  // namespace tranche::engine
