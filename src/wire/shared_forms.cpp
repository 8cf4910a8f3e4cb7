// SPDX-License-Identifier: Apache-2.0
// Codecs of the forms that several rooms share.
#include <algorithm>

#include "wire/agent_message.hpp"
#include "wire/codec_impl.hpp"
#include "wire/meter.hpp"
#include "wire/receipt.hpp"
#include "wire/refusal.hpp"
#include "wire/why.hpp"

namespace tranche::wire {

std::optional<std::uint16_t> agree_on_version(const Hello& hello,
                                              std::uint16_t server_min,
                                              std::uint16_t server_max) {
  const std::uint16_t highest = std::min(hello.version_max, server_max);
  const std::uint16_t lowest = std::max(hello.version_min, server_min);
  return highest >= lowest ? std::optional(highest) : std::nullopt;
}

}  // namespace tranche::wire

TRANCHE_WIRE_CODEC(tranche::wire::Refusal);
TRANCHE_WIRE_CODEC(tranche::wire::Why);
TRANCHE_WIRE_CODEC(tranche::wire::MeterRecord);
TRANCHE_WIRE_CODEC(tranche::wire::ScrubReceipt);
TRANCHE_WIRE_CODEC(tranche::wire::AcceptanceReceipt);
TRANCHE_WIRE_CODEC(tranche::wire::LimitReceipt);
TRANCHE_WIRE_RECORD(tranche::wire::AgentFrame);
TRANCHE_WIRE_RECORD(tranche::wire::Hello);
TRANCHE_WIRE_RECORD(tranche::wire::Welcome);
TRANCHE_WIRE_RECORD(tranche::wire::Parting);
TRANCHE_WIRE_RECORD(tranche::wire::Heartbeat);
TRANCHE_WIRE_RECORD(tranche::wire::LeaseGrant);
TRANCHE_WIRE_RECORD(tranche::wire::LeaseRenewal);
TRANCHE_WIRE_RECORD(tranche::wire::LeaseRevoke);
TRANCHE_WIRE_RECORD(tranche::wire::LeaseReport);
TRANCHE_WIRE_RECORD(tranche::wire::MeterReport);
TRANCHE_WIRE_RECORD(tranche::wire::HealthSignal);
TRANCHE_WIRE_RECORD(tranche::wire::LogChunk);
TRANCHE_WIRE_RECORD(tranche::wire::Receipts);
TRANCHE_WIRE_RECORD(tranche::wire::HeartbeatAnswer);
TRANCHE_WIRE_RECORD(tranche::wire::LogAck);
TRANCHE_WIRE_RECORD(tranche::wire::CertificateWish);
TRANCHE_WIRE_RECORD(tranche::wire::Certificate);
TRANCHE_WIRE_RECORD(tranche::wire::SessionOpen);
TRANCHE_WIRE_RECORD(tranche::wire::SessionData);
TRANCHE_WIRE_RECORD(tranche::wire::SessionEnd);
TRANCHE_WIRE_RECORD(tranche::wire::DeviceOrder);
TRANCHE_WIRE_RECORD(tranche::wire::VolumeOrder);
TRANCHE_WIRE_CODEC(tranche::wire::VolumeReceipt);
TRANCHE_WIRE_CODEC(tranche::wire::BehaviourRecord);
TRANCHE_WIRE_RECORD(tranche::wire::ProgressReport);
TRANCHE_WIRE_RECORD(tranche::wire::CheckpointWish);
TRANCHE_WIRE_RECORD(tranche::wire::SavedJobs);
TRANCHE_WIRE_RECORD(tranche::wire::SavedInVain);
