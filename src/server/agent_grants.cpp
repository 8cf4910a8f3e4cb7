// SPDX-License-Identifier: Apache-2.0
// What a node is given with a lease: the job as it may see it, its volumes, its working directory.
#include <charconv>

#include "engine/handover.hpp"
#include "engine/slice_change.hpp"
#include "engine/state.hpp"
#include "server/agent_hub.hpp"
#include "server/agent_link.hpp"
#include "wire/job_spec.hpp"

namespace tranche::server {

wire::LeaseGrant AgentHub::grant_of(const engine::State& state, const engine::Lease& lease) const {
  const engine::Job& job = state.jobs.at(lease.job);
  wire::LeaseGrant grant{.lease = lease.id,
                         .epoch = lease.epoch,
                         .job = lease.job,
                         .attempt = lease.attempt,
                         .owner = lease.owner,
                         .tenant = lease.tenant,
                         .expires_in = options_.lease,
                         .rank = lease.rank};
  if (auto spec = wire::from_json<wire::JobSpec>(job.spec)) grant.spec = std::move(*spec);
  const wire::TextMap sealed = grant.spec.secrets;
  for (const auto& [name, value] : sealed)
    if (options_.unseal) grant.spec.secrets.set(name, options_.unseal(value));
  if (job.ask.time > Duration{}) grant.spec.limits.time = job.ask.time;
  for (const wire::VolumeMount& mount : grant.spec.volumes) {
    const engine::Volume* volume = engine::find_volume(state, job.owner, mount.name);
    if (volume == nullptr || !engine::is_offered(*volume, state.nodes.at(lease.node)))
      continue;  // One too few: the node refuses the lease.
    grant.volumes.push_back({.volume = volume->id,
                             .path = mount.path,
                             .read_only = mount.read_only,
                             .quota = {volume->bytes},
                             .pool = volume->pool});
  }
  if (!grant.volumes.empty() && options_.unseal)
    grant.volume_key = options_.unseal("derived:volumes of " + text(lease.tenant));
  for (const engine::Slice& slice : lease.slices) {
    grant.slices.push_back({.device = slice.device,
                            .uuid = state.devices.at(slice.device).facts.uuid,
                            .isolation = lease.isolation,
                            .vram = {slice.vram},
                            .milli = slice.milli,
                            .profile = job.ask.profile,
                            .start = slice.start});
  }
  // Whole devices are wiped when the server says so: not at all while the same tenant waits for them.
  grant.must_scrub = !engine::has_whole_devices(state, lease);
  grant.units = engine::units_left(state, job.id);
  if (lease.attempt > 1) add_checkpoints(state, lease, grant);
  for (const LeaseId member : job.leases) grant.peers.push_back(facts(state.leases.at(member).node).address);
  grant.members = job.leases;
  // Of this attempt alone: who was a member before cannot listen.
  if (grant.spec.network == wire::Network::kGang && grant.members.size() > 1 && options_.unseal)
    grant.gang_key = options_.unseal("derived:gang " + text(grant.members.front()));
  return grant;
}

// What a lease was told since it was granted and has not answered yet.
void AgentHub::send_change(AgentLink& link, const engine::Lease& lease) const {
  if (lease.revoked) return;
  if (lease.change)
    link.send(wire::LeaseRenewal{.lease = lease.id,
                                 .epoch = lease.epoch,
                                 .expires_in = options_.lease,
                                 .milli = lease.change->milli,
                                 .vram = Bytes{lease.change->vram},
                                 .grace = lease.change->grace});
  const bool leaves = lease.parking == engine::Parking::kAsked;
  if (leaves || lease.parking == engine::Parking::kReturning)
    link.send(wire::LeaseRevoke{.lease = lease.id,
                                .epoch = lease.epoch,
                                .way = leaves ? wire::RevokeWay::kPause : wire::RevokeWay::kResume,
                                .grace = engine::kParkGrace});
}

// A node that does not hear of them ends its lease without, and they go to another.
void AgentHub::send_units(const engine::State& state, const engine::ChunkExtended& extended) {
  const engine::Job* job = state.job(extended.job);
  if (job == nullptr || job->leases.empty()) return;
  const engine::Lease& lease = state.leases.at(job->leases.front());
  const auto link = lease.live() ? link_of(lease.node) : nullptr;
  if (link)
    link->send(wire::LeaseRenewal{.lease = lease.id,
                                  .epoch = lease.epoch,
                                  .expires_in = options_.lease,
                                  .milli = {},
                                  .vram = {},
                                  .units = extended.units});
}

void AgentHub::order_volume_work(const engine::State& state, const engine::Volume& volume) {
  const bool copies = volume.state == wire::VolumeState::kCopying;
  if (!copies && volume.state != wire::VolumeState::kWiping) return;
  const auto link = link_of(engine::worker_of(state, volume));
  if (!link) return;  // Told when it comes back.
  link->send(wire::VolumeOrder{.volume = volume.id,
                               .tenant = engine::tenant_of(state, volume.owner),
                               .work = copies ? wire::VolumeWork::kCopy : wire::VolumeWork::kWipe,
                               .source = volume.source,
                               .pool = volume.pool});
}

void AgentHub::give_workdir(const net::Request& request, net::Reply reply) {
  const auto say = [](int status, std::string message) {
    return net::Response{
        .status = status, .content_type = "text/plain", .body = std::move(message), .headers = {}};
  };
  if (!request.client_certificate) return reply.send(say(401, "a node shows its certificate"));
  const auto node = parse_id("node_", request.client_certificate->common_name);
  const auto query = net::parse_query(request.query);
  if (!node || !query) return reply.send(say(400, "no such request"));
  LeaseId lease{};
  std::uint64_t offset = 0;
  for (const auto& [name, value] : *query) {
    if (name == "lease") lease = {parse_id("lease_", value).value_or(0)};
    if (name == "offset") std::from_chars(value.data(), value.data() + value.size(), offset);
  }
  loop_.read([this, node = NodeId{*node}, lease, offset, say, reply = std::move(reply)](
                 const engine::State& state) mutable {
    const engine::Lease* found = state.lease(lease);
    // Somebody else's lease, or one that is over: nothing is said about it.
    if (found == nullptr || found->node != node || !found->live())
      return reply.send(say(404, "this node has no such lease"));
    const auto spec = wire::from_json<wire::JobSpec>(state.jobs.at(found->job).spec);
    const bool named = spec && WorkdirStore::is_digest(spec->workdir) && options_.workdirs;
    if (!named) return reply.send(say(404, "its job has no working directory"));
    constexpr std::size_t kPiece = 1U << 20U;
    auto bytes = options_.workdirs->read(found->tenant, spec->workdir, offset, kPiece);
    if (!bytes)
      return reply.send(say(404, "the server has forgotten the working directory; submit it again"));
    if (offset == 0) options_.workdirs->use(found->tenant, spec->workdir);
    net::Response response = say(200, std::move(*bytes));
    response.content_type = "application/octet-stream";
    reply.send(std::move(response));
  });
}

}  // namespace tranche::server
