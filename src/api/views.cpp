// SPDX-License-Identifier: Apache-2.0
#include "api/views.hpp"

#include "api/interruptions.hpp"
#include "api/progress_view.hpp"
#include "base/wall_clock.hpp"
#include "engine/device_life.hpp"
#include "engine/spend.hpp"
#include "engine/unit_quota.hpp"
#include "engine/why.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

// What a person wants to know of an end at first sight.
std::string end_of(const engine::Job& job) {
  using wire::EndReason;
  switch (job.reason) {
    case EndReason::kStopped:
      return "stopped by request";
    case EndReason::kExited:
      if (job.exit_signal != 0) return "signal " + std::to_string(job.exit_signal);
      return job.exit_code == 0 ? "" : "exit " + std::to_string(job.exit_code);
    case EndReason::kNone:
      return {};
    default:
      return job.message.empty() ? std::string(wire::name_of(job.reason)) : job.message;
  }
}

std::string reason_of(const engine::State& state, const engine::Job& job) {
  if (is_over(job.state)) return end_of(job);
  if (job.state == wire::JobState::kHeld) return engine::held_summary(job);
  if (job.paused) return engine::pause_summary(job);
  if (job.state != wire::JobState::kPending) return {};
  return engine::wait_summary(state, job);
}

std::optional<Instant> known(Instant at) {
  return at == Instant{} ? std::nullopt : std::optional(at);
}

wire::LeaseView view_of(const engine::State& state, const engine::Lease& lease) {
  const engine::Node& node = state.nodes.at(lease.node);
  wire::LeaseView view{.id = lease.id,
                       .attempt = lease.attempt,
                       .rank = lease.rank,
                       .node = node.name,
                       .simulated = node.simulated,
                       .state = lease.state,
                       .granted = lease.granted,
                       .started = known(lease.started),
                       .ended = known(lease.ended),
                       .reason = lease.reason,
                       .exit_code = lease.exit_code,
                       .exit_signal = lease.exit_signal,
                       .message = lease.message,
                       .device_nanoseconds = lease.use.device_nanoseconds,
                       .vram_byte_seconds = lease.use.vram_byte_seconds,
                       .paused_for = lease.parked_for};
  if (lease.live() && lease.parking == engine::Parking::kParked) view.paused_since = lease.parked;
  if (lease.live() && lease.change) view.becomes_milli = lease.change->milli;
  for (const engine::Slice& slice : lease.slices) {
    const engine::DeviceFacts& facts = state.devices.at(slice.device).facts;
    const engine::Device& device = state.devices.at(slice.device);
    view.slices.push_back({slice.device,
                           facts.uuid,
                           facts.model,
                           slice.milli,
                           {slice.vram},
                           device.state,
                           engine::health_words(state, device)});
  }
  return view;
}

}  // namespace

wire::PartyView view_of(const engine::State& state, const engine::Party& party) {
  return {.id = party.id,
          .kind = party.id.kind(),
          .name = party.name,
          .path = engine::path_of(state, party.id),
          .parent = party.parent,
          .time_zone = party.time_zone,
          .disabled = party.disabled,
          .created = party.created,
          .version = party.version};
}

wire::TokenView view_of(const engine::State& state, const engine::Token& token) {
  return {.id = token.id,
          .party = token.party,
          .path = engine::path_of(state, token.party),
          .label = token.label,
          .scope = token.scope,
          .created = token.created,
          .expires = token.expires == Instant{} ? std::nullopt : std::optional(token.expires),
          .revoked = token.revoked};
}

wire::JobView view_of(const engine::State& state, const engine::Job& job, std::string owner_path) {
  wire::JobView view{.id = job.id,
                     .name = job.name,
                     .owner = std::move(owner_path),
                     .state = job.state,
                     .reason = reason_of(state, job),
                     .kind = job.ask.kind,
                     .gpus = job.ask.gpus,
                     .priority = job.ask.priority,
                     .admission = job.admission,
                     .submitted = job.submitted,
                     .ended = known(job.ended),
                     .started = known(job.started)};
  if (const auto progress = progress_of(state, job)) view.progress = progress_text(*progress);
  if (const auto group = state.index.work->group_of.find(job.id); group != state.index.work->group_of.end())
    view.group = group->second;
  if (job.leases.empty() || job.state == wire::JobState::kPending || job.is_put_aside()) return view;
  if (const engine::Lease* lease = state.lease(job.leases.front())) {
    const engine::Node& node = state.nodes.at(lease->node);
    view.node = node.name;
    view.simulated = node.simulated;
  }
  return view;
}

wire::JobDetail detail_of(const engine::State& state, const engine::Job& job) {
  wire::JobDetail detail{.job = view_of(state, job, engine::path_of(state, job.owner)),
                         .ask = job.ask,
                         .hold = job.hold,
                         .version = job.version,
                         .spec = {job.spec.empty() ? "{}" : job.spec},
                         .attempts = job.attempts,
                         .end_reason = job.reason,
                         .exit_code = job.exit_code,
                         .exit_signal = job.exit_signal,
                         .message = job.message,
                         .charged = charged_for(state, job),
                         .credited = job.credited};
  detail.progress = progress_of(state, job);
  if (const auto group = state.work.groups.find(job.id); group != state.work.groups.end()) {
    detail.chunks = group->second.past;
    for (const engine::Chunk& chunk : group->second.chunks) detail.chunks.push_back(chunk.job);
    detail.held = group->second.held;
  }
  if (const auto waits = state.work.waits.find(job.id); waits != state.work.waits.end())
    for (const engine::After& after : waits->second.after)
      detail.after.push_back(text(after.job) + (after.any ? ":any" : ":ok"));
  for (const LeaseId id : job.leases) {
    if (const engine::Lease* lease = state.lease(id)) detail.leases.push_back(view_of(state, *lease));
    const auto meter = state.meters.find(id);
    if (meter != state.meters.end()) detail.held.micros += meter->second.held.micros;
  }
  detail.interruptions = interruptions_of(state, job);
  if (const auto kept = state.work.checkpoints.find(job.id); kept != state.work.checkpoints.end())
    detail.checkpoints = kept->second.notes;
  return detail;
}

wire::QuotaView quota_view(const engine::State& state, const engine::Party& party) {
  wire::QuotaView view{.party = party.id,
                       .path = engine::path_of(state, party.id),
                       .quota = party.quota,
                       .usage = party.usage,
                       .version = party.version};
  const Instant now = clock_at_least(state.now);
  view.usage.gpu_seconds_used = engine::gpu_seconds_used(state, party.id, now);
  view.usage.spent = engine::spent(state, party.id, now);
  const Instant until = engine::period_end(party.quota.period, now);
  for (const auto& [unit, done] : engine::units_done(state, party, now))
    view.units[unit] = {.limit = std::nullopt,
                        .done = done,
                        .promised = engine::promised_units(state, party.id, unit),
                        .until = until};
  for (const engine::UnitLimit& limit : engine::unit_limits_of(state, party, now))
    view.units[limit.unit] = {
        .limit = limit.limit, .done = limit.done, .promised = limit.promised, .until = until};
  return view;
}

wire::RulesView rules_view(const engine::State& state, const engine::Party& party) {
  return {.party = party.id,
          .path = engine::path_of(state, party.id),
          .rules = party.rules.rules,
          .version = party.version};
}

}  // namespace tranche::api
