// SPDX-License-Identifier: Apache-2.0
// A job goes on from what it saved, on whatever node: the node that has it sends it here when another asks.
#include <charconv>

#include "engine/state.hpp"
#include "server/agent_hub.hpp"
#include "server/agent_link.hpp"

namespace tranche::server {
namespace {

constexpr std::size_t kPiece = 1U << 20U;
constexpr std::chrono::seconds kAskAgain{60};
constexpr std::chrono::seconds kAllowedFor{10};  // Then it is looked at again whether the lease still lives.

net::Response say(int status, std::string message) {
  return {.status = status, .content_type = "text/plain", .body = std::move(message), .headers = {}};
}

// What the query of a request says, of those that both directions have.
struct Asked {
  NodeId node{};
  LeaseId lease{}, source{};
  std::uint64_t offset = 0;
  bool is_last = false;
  std::string digest{}, problem{};
};
std::optional<Asked> read_query(const net::Request& request) {
  if (!request.client_certificate) return std::nullopt;
  const auto node = parse_id("node_", request.client_certificate->common_name);
  const auto query = net::parse_query(request.query);
  if (!node || !query) return std::nullopt;
  Asked asked{.node = {*node}};
  for (const auto& [name, value] : *query) {
    if (name == "lease") asked.lease = {parse_id("lease_", value).value_or(0)};
    if (name == "source") asked.source = {parse_id("lease_", value).value_or(0)};
    if (name == "offset") std::from_chars(value.data(), value.data() + value.size(), asked.offset);
    if (name == "digest") {
      asked.is_last = true;
      asked.digest = value;
    }
    if (name == "problem") asked.problem = value;
  }
  return asked;
}

bool was_saved_by(const engine::State& state, JobId job, LeaseId lease) {
  const auto kept = state.work.checkpoints.find(job);
  if (kept == state.work.checkpoints.end()) return false;
  const auto& leases = kept->second.saved_by;
  return std::find(leases.begin(), leases.end(), lease) != leases.end();
}

}  // namespace

// One for each node that the last attempt was on: its members there shared a folder.
void AgentHub::add_checkpoints(const engine::State& state,
                               const engine::Lease& lease,
                               wire::LeaseGrant& grant) {
  const auto kept = state.work.checkpoints.find(lease.job);
  if (kept == state.work.checkpoints.end()) return;
  std::vector<NodeId> seen;
  for (const LeaseId id : kept->second.saved_by) {
    const engine::Lease* saved = state.lease(id);
    if (saved == nullptr || std::find(seen.begin(), seen.end(), saved->node) != seen.end()) continue;
    seen.push_back(saved->node);
    grant.resume.push_back(
        {.lease = id, .is_here = saved->node == lease.node, .node = state.nodes.at(saved->node).name});
  }
}

// 200: a piece, empty at the end. 202: it is on its way. 410: it is gone with its node. Else: why not.
net::Response AgentHub::checkpoint_piece(const engine::State& state, JobId job, LeaseId source) {
  const CheckpointStore::State held = options_.checkpoints->state(job, source);
  if (!held.problem.empty()) return say(409, held.problem);
  const engine::Lease* saved = state.lease(source);
  if (saved == nullptr || !was_saved_by(state, job, source)) return say(404, "nothing was saved there");
  const engine::Node& node = state.nodes.at(saved->node);
  if (node.state == wire::NodeState::kLost || node.state == wire::NodeState::kRetired)
    return say(410, "the node " + node.name + ", which it is on, is gone");
  const auto link = link_of(node.id);
  if (!link) return say(202, "the node " + node.name + ", which it is on, is not connected");
  {
    const std::lock_guard lock(mutex_);
    auto& asked = checkpoints_asked_[source];
    const auto now = std::chrono::steady_clock::now();
    if (asked != std::chrono::steady_clock::time_point{} && now - asked < kAskAgain)
      return say(202, "it is on its way");
    asked = now;
  }
  link->send(wire::CheckpointWish{.job = job, .lease = source});
  return say(202, "it is on its way");
}

void AgentHub::name_saved_in_vain(const std::shared_ptr<AgentLink>& link, const wire::SavedJobs& kept) {
  loop_.read([link, jobs = kept.jobs](const engine::State& state) {
    wire::SavedInVain needless;
    for (const JobId id : jobs) {
      const engine::Job* job = state.job(id);
      if (job == nullptr || wire::is_over(job->state)) needless.jobs.push_back(id);
    }
    if (!needless.jobs.empty()) link->send(needless);
  });
}

void AgentHub::give_checkpoint(const net::Request& request, net::Reply reply) {
  const auto asked = read_query(request);
  if (!asked || !options_.checkpoints) return reply.send(say(400, "no such request"));
  if (const auto job = allowed_job({asked->node, asked->lease, asked->source})) {
    auto bytes = options_.checkpoints->read(*job, asked->source, asked->offset, kPiece);
    if (bytes) {
      net::Response response = say(200, std::move(*bytes));
      response.headers.emplace_back("X-Tranche-Digest",
                                    options_.checkpoints->state(*job, asked->source).digest);
      return reply.send(std::move(response));
    }
  }
  loop_.read([this, asked = *asked, reply = std::move(reply)](const engine::State& state) mutable {
    const engine::Lease* lease = state.lease(asked.lease);
    // Somebody else's lease, or one that is over: nothing is said about it.
    if (lease == nullptr || lease->node != asked.node || !lease->live())
      return reply.send(say(404, "this node has no such lease"));
    if (options_.checkpoints->state(lease->job, asked.source).is_whole &&
        was_saved_by(state, lease->job, asked.source)) {
      allow({asked.node, asked.lease, asked.source}, lease->job);
      return reply.send(say(202, "it is here"));
    }
    reply.send(checkpoint_piece(state, lease->job, asked.source));
  });
}

// From the node that saved it.
void AgentHub::take_checkpoint(const net::Request& request, net::Reply reply) {
  const auto asked = read_query(request);
  if (!asked || !options_.checkpoints) return reply.send(say(400, "no such request"));
  const auto keep = [this, asked = *asked, body = request.body](JobId job) {
    CheckpointStore& store = *options_.checkpoints;
    if (!asked.problem.empty()) {
      store.give_up(job, asked.lease, asked.problem);
      return say(200, "");
    }
    if (std::string problem = store.put(job, asked.lease, asked.offset, body); !problem.empty()) {
      store.give_up(job, asked.lease, problem);
      return say(409, std::move(problem));
    }
    if (asked.is_last) store.finish(job, asked.lease, asked.digest);
    return say(200, "");
  };
  if (const auto job = allowed_job({asked->node, asked->lease, {}})) return reply.send(keep(*job));
  loop_.read([this, asked = *asked, keep, reply = std::move(reply)](const engine::State& state) mutable {
    const engine::Lease* lease = state.lease(asked.lease);
    if (lease == nullptr || lease->node != asked.node || !was_saved_by(state, lease->job, asked.lease))
      return reply.send(say(404, "nobody goes on from this lease"));
    allow({asked.node, asked.lease, {}}, lease->job);
    reply.send(keep(lease->job));
  });
}

void AgentHub::allow(const CheckpointRight& right, JobId job) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(checkpoint_rights_, [&](const auto& one) { return one.second.second < now; });
  checkpoint_rights_[right] = {job, now + kAllowedFor};
}

std::optional<JobId> AgentHub::allowed_job(const CheckpointRight& right) const {
  const std::lock_guard lock(mutex_);
  const auto found = checkpoint_rights_.find(right);
  if (found == checkpoint_rights_.end() || found->second.second < std::chrono::steady_clock::now())
    return std::nullopt;
  return found->second.first;
}

void AgentHub::forget_checkpoints(JobId job) {
  if (options_.checkpoints) options_.checkpoints->forget(job);
}

}  // namespace tranche::server
