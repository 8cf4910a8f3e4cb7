// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every command and every event of the engine. Type numbers are written to disk: never change or reuse one.
#include <boost/mp11/list.hpp>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "engine/job.hpp"
#include "engine/lease.hpp"
#include "engine/ledger.hpp"
#include "engine/market.hpp"
#include "engine/metering.hpp"
#include "engine/node.hpp"
#include "engine/party.hpp"
#include "engine/platform.hpp"
#include "engine/price.hpp"
#include "engine/spend_book.hpp"
#include "engine/token.hpp"
#include "engine/volume.hpp"

namespace tranche::engine {

using Command = std::variant<Found,
                             CreateParty,
                             ChangeParty,
                             GrantRole,
                             RevokeRole,
                             SetPassword,
                             SetQuota,
                             SetRules,
                             IssueToken,
                             RevokeToken,
                             OpenSession,
                             SubmitJob,
                             StopJob,
                             SetSku,
                             ChangeSettings,
                             NoteDenial,
                             Tick,
                             AddNode,
                             JoinNode,
                             ReportNode,
                             LoseNode,
                             ChangeNode,
                             RemoveNode,
                             ReportLease,
                             ReportMeters,
                             KeepReceipts,
                             NoteHealth,
                             Schedule,
                             TopUp,
                             PostEntry,
                             ReversePosting,
                             SetOverdraft,
                             PlaceHold,
                             EndHold,
                             SetMarketRules,
                             CertifyCapacity,
                             ListCapacity,
                             PlaceOrder,
                             CancelOrder,
                             InterruptContract,
                             ResumeContract,
                             SetPriceList,
                             OpenMeter,
                             RecordUsage,
                             CloseMeter,
                             CreateVolume,
                             SnapshotVolume,
                             RemoveVolume,
                             KeepVolumeReceipt>;

// The name under which a command stands in the audit log.
[[nodiscard]] std::string_view command_name(const Command&);

using Event = std::variant<Founded,
                           PartyCreated,
                           PartyChanged,
                           RoleGranted,
                           RoleRevoked,
                           PasswordSet,
                           QuotaSet,
                           RulesSet,
                           TokenIssued,
                           TokenRevoked,
                           JobSubmitted,
                           JobEnded,
                           SkuSet,
                           SettingsChanged,
                           Denied,
                           Ticked,
                           NodeAdded,
                           NodeInvitationUsed,
                           NodeReported,
                           NodeStateChanged,
                           NodeChanged,
                           DeviceStateChanged,
                           LeaseGranted,
                           LeaseRevoked,
                           LeaseReported,
                           UsageMetered,
                           ReceiptsKept,
                           HealthSignalled,
                           JobRequeued,
                           JobStopRequested,
                           Posted,
                           OverdraftSet,
                           HoldPlaced,
                           HoldEnded,
                           BudgetAlerted,
                           MarketRulesSet,
                           CapacityCertified,
                           BookOpened,
                           CapacityListed,
                           OrderPlaced,
                           OrderFilled,
                           OrderClosed,
                           OrderRepriced,
                           ContractInterrupted,
                           ContractResumed,
                           ContractSettled,
                           ContractPaidOut,
                           PriceListSet,
                           MeterOpened,
                           Charged,
                           MeterClosed,
                           VolumeCreated,
                           VolumeRemoved,
                           VolumeWorked>;

// On disk an event is its number, then its described fields. Fields are only ever appended, with a default.
template <class E>
inline constexpr std::uint16_t kEventNumber = 0;
template <>
inline constexpr std::uint16_t kEventNumber<Founded> = 1;
template <>
inline constexpr std::uint16_t kEventNumber<PartyCreated> = 2;
template <>
inline constexpr std::uint16_t kEventNumber<PartyChanged> = 3;
template <>
inline constexpr std::uint16_t kEventNumber<RoleGranted> = 4;
template <>
inline constexpr std::uint16_t kEventNumber<RoleRevoked> = 5;
template <>
inline constexpr std::uint16_t kEventNumber<PasswordSet> = 6;
template <>
inline constexpr std::uint16_t kEventNumber<QuotaSet> = 7;
template <>
inline constexpr std::uint16_t kEventNumber<RulesSet> = 8;
template <>
inline constexpr std::uint16_t kEventNumber<TokenIssued> = 9;
template <>
inline constexpr std::uint16_t kEventNumber<TokenRevoked> = 10;
template <>
inline constexpr std::uint16_t kEventNumber<JobSubmitted> = 11;
template <>
inline constexpr std::uint16_t kEventNumber<JobEnded> = 12;
template <>
inline constexpr std::uint16_t kEventNumber<SkuSet> = 13;
template <>
inline constexpr std::uint16_t kEventNumber<SettingsChanged> = 14;
template <>
inline constexpr std::uint16_t kEventNumber<Denied> = 15;
template <>
inline constexpr std::uint16_t kEventNumber<Ticked> = 16;
template <>
inline constexpr std::uint16_t kEventNumber<NodeAdded> = 17;
template <>
inline constexpr std::uint16_t kEventNumber<NodeInvitationUsed> = 18;
template <>
inline constexpr std::uint16_t kEventNumber<NodeReported> = 19;
template <>
inline constexpr std::uint16_t kEventNumber<NodeStateChanged> = 20;
template <>
inline constexpr std::uint16_t kEventNumber<NodeChanged> = 21;
template <>
inline constexpr std::uint16_t kEventNumber<DeviceStateChanged> = 22;
template <>
inline constexpr std::uint16_t kEventNumber<LeaseGranted> = 23;
template <>
inline constexpr std::uint16_t kEventNumber<LeaseRevoked> = 24;
template <>
inline constexpr std::uint16_t kEventNumber<LeaseReported> = 25;
template <>
inline constexpr std::uint16_t kEventNumber<UsageMetered> = 26;
template <>
inline constexpr std::uint16_t kEventNumber<ReceiptsKept> = 27;
template <>
inline constexpr std::uint16_t kEventNumber<HealthSignalled> = 28;
template <>
inline constexpr std::uint16_t kEventNumber<JobRequeued> = 29;
template <>
inline constexpr std::uint16_t kEventNumber<JobStopRequested> = 30;

// 60 to 89: money and market.
template <>
inline constexpr std::uint16_t kEventNumber<Posted> = 60;
template <>
inline constexpr std::uint16_t kEventNumber<OverdraftSet> = 61;
template <>
inline constexpr std::uint16_t kEventNumber<HoldPlaced> = 62;
template <>
inline constexpr std::uint16_t kEventNumber<HoldEnded> = 63;
template <>
inline constexpr std::uint16_t kEventNumber<BudgetAlerted> = 64;
template <>
inline constexpr std::uint16_t kEventNumber<MarketRulesSet> = 65;
template <>
inline constexpr std::uint16_t kEventNumber<CapacityCertified> = 66;
template <>
inline constexpr std::uint16_t kEventNumber<BookOpened> = 67;
template <>
inline constexpr std::uint16_t kEventNumber<CapacityListed> = 68;
template <>
inline constexpr std::uint16_t kEventNumber<OrderPlaced> = 69;
template <>
inline constexpr std::uint16_t kEventNumber<OrderFilled> = 70;
template <>
inline constexpr std::uint16_t kEventNumber<OrderClosed> = 71;
template <>
inline constexpr std::uint16_t kEventNumber<OrderRepriced> = 72;
template <>
inline constexpr std::uint16_t kEventNumber<ContractInterrupted> = 73;
template <>
inline constexpr std::uint16_t kEventNumber<ContractResumed> = 74;
template <>
inline constexpr std::uint16_t kEventNumber<ContractSettled> = 75;
template <>
inline constexpr std::uint16_t kEventNumber<ContractPaidOut> = 76;
template <>
inline constexpr std::uint16_t kEventNumber<PriceListSet> = 77;
template <>
inline constexpr std::uint16_t kEventNumber<MeterOpened> = 78;
template <>
inline constexpr std::uint16_t kEventNumber<Charged> = 79;
template <>
inline constexpr std::uint16_t kEventNumber<MeterClosed> = 80;

// 90 to 98: volumes. (A test needs 99 to stay unknown.)
template <>
inline constexpr std::uint16_t kEventNumber<VolumeCreated> = 90;
template <>
inline constexpr std::uint16_t kEventNumber<VolumeRemoved> = 91;
template <>
inline constexpr std::uint16_t kEventNumber<VolumeWorked> = 92;

using Events = std::vector<Event>;
using Decision = Result<Events, Refusal>;

}  // namespace tranche::engine
