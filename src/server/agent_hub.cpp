// SPDX-License-Identifier: Apache-2.0
#include "server/agent_hub.hpp"

#include <algorithm>

#include "base/wall_clock.hpp"
#include "engine/slice_change.hpp"
#include "engine/state.hpp"
#include "server/agent_link.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"

namespace tranche::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLogNamesMax = 8192;

// Tenants read it, and whoever runs the node may be anybody.
bool is_plausible(const wire::TestProgress& test) {
  constexpr std::size_t kPartMost = 64;
  return test.percent <= 100 && test.part.size() <= kPartMost &&
         std::all_of(test.part.begin(), test.part.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

net::Response plain(int status, std::string message) {
  return {.status = status, .content_type = "text/plain", .body = std::move(message) + '\n', .headers = {}};
}

wire::LeaseRevoke kill_order(LeaseId lease, std::uint64_t epoch, std::string message) {
  return {.lease = lease,
          .epoch = epoch,
          .way = wire::RevokeWay::kKill,
          .reason = wire::EndReason::kLeaseExpired,
          .message = std::move(message)};
}

wire::DeviceOrder order_for(const engine::State& state, const engine::Device& device) {
  const bool wipe = device.record.task == wire::DeviceTask::kWipe;
  const engine::Lease* left = wipe ? state.lease(device.record.left_by) : nullptr;
  return {.order = device.record.order,
          .device = device.id,
          .uuid = device.facts.uuid,
          .task = device.record.task,
          .level = device.record.level,
          .lease = wipe ? device.record.left_by : LeaseId{},
          .tenant = left == nullptr ? PartyId{} : left->tenant};
}

wire::LeaseRevoke order_of(const engine::LeaseRevoked& event, std::uint64_t epoch) {
  return {.lease = event.id,
          .epoch = epoch,
          .way = event.way,
          .reason = event.reason,
          .grace = event.grace,
          .message = event.message};
}

}  // namespace

AgentHub::AgentHub(Loop& loop, LogStore& logs, HubOptions options)
    : loop_(loop), logs_(logs), options_(std::move(options)), log_names_(kLogNamesMax, [this](LeaseId id) {
        loop_.read([this, id](const engine::State& state) {
          const engine::Lease* lease = state.lease(id);
          if (lease == nullptr) return log_names_.put(id, std::nullopt);
          log_names_.put(id, LogPlace{{lease->job, lease->attempt, lease->rank}, lease->node, lease->epoch});
        });
      }) {
  loop_.follow([this](const Durable& durable) { follow(durable); });
}

AgentHub::~AgentHub() {
  close();
}

void AgentHub::start() {
  loop_.read([this](const engine::State& state) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, node] : state.nodes)
      if (node.state == engine::NodeState::kReady) promised_.emplace(id, Clock::now());
  });
}

void AgentHub::close() {
  std::map<NodeId, std::shared_ptr<AgentLink>> links;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    links.swap(links_);
  }
  for (const auto& [node, link] : links) link->part("shutdown", "the server ends");
}

std::shared_ptr<AgentLink> AgentHub::link_of(NodeId node) const {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(node);
  return found == links_.end() ? nullptr : found->second;
}

LinkFacts AgentHub::facts(NodeId node) const {
  const std::lock_guard lock(mutex_);
  const auto found = facts_.find(node);
  return found == facts_.end() ? LinkFacts{} : found->second;
}

void AgentHub::promise(NodeId node) {
  const std::lock_guard lock(mutex_);
  promised_[node] = Clock::now();
}

void AgentHub::accept(net::Request&& request, net::Reply reply) {
  if (!request.client_certificate)
    return reply.send(plain(401, "a node shows its certificate; join first: tranche node add"));
  const auto id = parse_id("node_", request.client_certificate->common_name);
  if (!id) return reply.send(plain(403, "this certificate is not a node's"));
  auto link = std::make_shared<AgentLink>(NodeId{*id}, request.peer);
  net::WebSocketCallbacks callbacks;
  callbacks.on_message = [this, link](net::WebSocket&, const std::string& message) {
    const auto frame = wire::decode<wire::AgentFrame>(message);
    if (!frame) return link->part("protocol", "a frame could not be read: " + frame.error());
    receive(link, *frame);
  };
  callbacks.on_close = [this, link](std::uint16_t, const std::string&) { dropped(link); };
  link->opened(reply.upgrade(std::move(callbacks),
                             {.message_bytes_max = 4U << 20U,
                              .queue_bytes_max = 16U << 20U,
                              .kind = net::MessageKind::kBinary,
                              .protocol = {}}));
}

void AgentHub::dropped(const std::shared_ptr<AgentLink>& link) {
  std::vector<std::function<void(const wire::SessionEnd&)>> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find(link->node());
    if (found == links_.end() || found->second != link) return;
    links_.erase(found);
    facts_[link->node()].connected = false;
    facts_[link->node()].tests.clear();
    telemetry_.forget(link->node());
    for (auto at = sessions_.begin(); at != sessions_.end();) {
      if (at->second.node != link->node()) {
        ++at;
        continue;
      }
      ended.push_back(at->second.callbacks.on_end);
      at = sessions_.erase(at);
    }
  }
  for (const auto& end : ended) end({.exit_code = 255, .message = "the node's link broke"});
}

void AgentHub::receive(const std::shared_ptr<AgentLink>& link, const wire::AgentFrame& frame) {
  using wire::AgentMessageKind;
  if (!link->greeted) {
    const auto hello = wire::open_frame<wire::Hello>(frame);
    if (!hello) return link->part("protocol", "the first frame must be a hello");
    return greet(link, *hello);
  }
  if (frame.sequence != 0 && !link->in_turn(frame.sequence))
    return link->part("protocol", "a message before this one is missing");
  const auto opened = [&]<class Message>(const Message*, auto use) {
    if (auto message = wire::open_frame<Message>(frame)) {
      use(*message);
    } else {
      link->part("protocol", message.error());
    }
  };
  const NodeId node = link->node();
  switch (frame.kind) {
    case AgentMessageKind::kHeartbeat:
      return opened(static_cast<wire::Heartbeat*>(nullptr), [&](const auto& m) { heard(link, m); });
    case AgentMessageKind::kLeaseReport:
      return opened(static_cast<wire::LeaseReport*>(nullptr), [&](const auto& m) {
        carry(link, frame.sequence, engine::ReportLease{node, frame.sequence, m});
      });
    case AgentMessageKind::kMeterReport:
      return opened(static_cast<wire::MeterReport*>(nullptr), [&](const auto& m) {
        carry(link, frame.sequence, engine::ReportMeters{node, frame.sequence, m.records});
      });
    case AgentMessageKind::kReceipts:
      return opened(static_cast<wire::Receipts*>(nullptr), [&](const auto& m) {
        carry(link, frame.sequence, engine::KeepReceipts{node, frame.sequence, m});
      });
    case AgentMessageKind::kHealthSignal:
      return opened(static_cast<wire::HealthSignal*>(nullptr), [&](const auto& m) {
        carry(link, frame.sequence, engine::NoteHealth{node, frame.sequence, m});
      });
    case AgentMessageKind::kVolumeReceipt:
      return opened(static_cast<wire::VolumeReceipt*>(nullptr), [&](const auto& m) {
        carry(link, frame.sequence, engine::KeepVolumeReceipt{node, frame.sequence, m});
      });
    case AgentMessageKind::kProgressReport:
      return opened(static_cast<wire::ProgressReport*>(nullptr), [&](const auto& m) {
        carry(link, frame.sequence, engine::NoteProgress{node, frame.sequence, m});
      });
    case AgentMessageKind::kLogChunk:
      return opened(static_cast<wire::LogChunk*>(nullptr), [&](const auto& m) { keep_log(link, m); });
    case AgentMessageKind::kCertificateWish:
      return opened(static_cast<wire::CertificateWish*>(nullptr),
                    [&](const auto& m) { renew_certificate(link, m); });
    case AgentMessageKind::kSavedJobs:
      return opened(static_cast<wire::SavedJobs*>(nullptr),
                    [&](const auto& m) { name_saved_in_vain(link, m); });
    case AgentMessageKind::kSessionData:
    case AgentMessageKind::kSessionEnd:
      return session_frame(frame);
    case AgentMessageKind::kParting:
      return;
    default:
      link->part("protocol", "an agent does not send this kind of message");
  }
}

void AgentHub::greet(const std::shared_ptr<AgentLink>& link, const wire::Hello& hello) {
  const auto version = wire::agree_on_version(hello);
  if (!version) {
    return link->part("version",
                      "this server speaks versions " + std::to_string(wire::kAgentProtocolMin) + " to " +
                          std::to_string(wire::kAgentProtocolMax) + "; upgrade the agent or the server");
  }
  link->version = *version;
  link->greeted = true;
  loop_.submit({.origin = "node:" + hello.node},
               engine::ReportNode{link->node(), hello},
               [this, link, hello](const Outcome& outcome) {
                 if (outcome.fault != Fault::kNone)
                   return link->part("busy", "the server cannot take nodes in now");
                 if (outcome.refusal != nullptr) return link->part("identity", outcome.refusal->message);
                 welcome(link, hello, *outcome.state);
               });
}

// On the loop's thread: nothing is granted or revoked between reading the state and registering the link.
void AgentHub::welcome(const std::shared_ptr<AgentLink>& link,
                       const wire::Hello& hello,
                       const engine::State& state) {
  const engine::Node& node = state.nodes.at(link->node());
  std::shared_ptr<AgentLink> before;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    before = std::exchange(links_[node.id], link);
    facts_[node.id].connected = true;
    facts_[node.id].address = link->address();
    promised_[node.id] = Clock::now();
  }
  if (before) before->part("replaced", "the node connected again");
  link->acknowledge(node.received);
  link->begins_after(node.received);
  link->send(wire::Welcome{.version = link->version,
                           .node = node.id,
                           .epoch = 1,
                           .received = node.received,
                           .heartbeat = options_.heartbeat,
                           .lease = options_.lease,
                           .server_time = state.now});
  for (const wire::RunningLease& running : hello.running) {
    const engine::Lease* lease = state.lease(running.lease);
    if (lease == nullptr || !lease->live() || lease->node != node.id || lease->epoch != running.epoch)
      link->send(kill_order(running.lease, running.epoch, "this lease is over"));
  }
  for (const LeaseId id : state.index.capacity->leases_on(node.id)) {
    const engine::Lease& lease = state.leases.at(id);
    if (!lease.live()) continue;
    if (lease.state == wire::LeaseState::kGranted) link->send(grant_of(state, lease));
    if (lease.revoked)
      link->send(order_of({.id = id, .reason = lease.revoke_reason, .grace = options_.grace}, lease.epoch));
    send_change(*link, lease);
  }
  for (const DeviceId id : node.devices) {
    const engine::Device& device = state.devices.at(id);
    if (device.record.order != 0) link->send(order_for(state, device));
  }
  for (const auto& [id, volume] : state.volumes)
    if (engine::worker_of(state, volume) == node.id) order_volume_work(state, volume);
}

void AgentHub::heard(const std::shared_ptr<AgentLink>& link, const wire::Heartbeat& heartbeat) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find(link->node());
    if (found == links_.end() || found->second != link) return;
    facts_[link->node()].last = heartbeat;
    promised_[link->node()] = Clock::now();
  }
  telemetry_.take(link->node(), heartbeat, wall_clock());
  link->send(wire::HeartbeatAnswer{.heartbeat_at = heartbeat.at, .lease = options_.lease});
}

void AgentHub::carry(const std::shared_ptr<AgentLink>& link,
                     std::uint64_t sequence,
                     engine::Command command) {
  const auto* report = std::get_if<engine::ReportLease>(&command);
  const LeaseId lease = report == nullptr ? LeaseId{} : report->report.lease;
  const std::uint64_t epoch = report == nullptr ? 0 : report->report.epoch;
  loop_.submit({.origin = "node:" + text(link->node())},
               std::move(command),
               [link, sequence, lease, epoch](const Outcome& outcome) {
                 // Not taken in: the agent keeps it and sends it again.
                 if (outcome.fault != Fault::kNone) return link->part("busy", "the server cannot write now");
                 link->acknowledge(sequence);
                 if (outcome.refusal != nullptr && lease != LeaseId{})
                   link->send(kill_order(lease, epoch, outcome.refusal->message));
               });
}

// What a node says outside of any lease. Who cannot be understood is not worth a broken link.
void AgentHub::take_tests(const std::shared_ptr<AgentLink>& link, const wire::LogChunk& chunk) {
  constexpr std::size_t kMost = 1024;
  const auto tests =
      wire::from_json<wire::TestsUnderWay>(chunk.bytes, {.unknown_keys = wire::UnknownKeys::kIgnored});
  if (!tests || tests->items.size() > kMost) return;
  if (!std::all_of(tests->items.begin(), tests->items.end(), is_plausible)) return;
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(link->node());
  if (found != links_.end() && found->second == link) facts_[link->node()].tests = tests->items;
}

// Only the node that holds, or held, the lease writes its log; what others send is dropped, and taken from
// them, so that they do not send it for ever.
void AgentHub::keep_log(const std::shared_ptr<AgentLink>& link, const wire::LogChunk& chunk) {
  if (chunk.lease == LeaseId{}) return take_tests(link, chunk);
  log_names_.with(chunk.lease, [this, link, chunk](const std::optional<LogPlace>& place) {
    std::uint64_t held = chunk.offset + chunk.bytes.size();
    if (place && place->node == link->node() && place->epoch == chunk.epoch) {
      LogName name = place->name;
      name.stream = chunk.stream;
      held = logs_.append(name, chunk.offset, chunk.bytes);
    }
    link->send(wire::LogAck{.lease = chunk.lease, .stream = chunk.stream, .offset = held});
  });
}

void AgentHub::renew_certificate(const std::shared_ptr<AgentLink>& link, const wire::CertificateWish& wish) {
  const auto made = options_.authority->sign_client(
      wish.request_pem, text(link->node()), net::Validity::lasting(options_.certificate_life));
  if (!made) {
    link->send(wire::Certificate{.message = "the request could not be read, or its key is too weak"});
    return;
  }
  link->send(wire::Certificate{.certificate_pem = *made});
}

void AgentHub::follow(const Durable& durable) {
  for (const engine::Event& event : *durable.events) {
    if (const auto* granted = std::get_if<engine::LeaseGranted>(&event)) {
      log_names_.put(
          granted->id,
          LogPlace{{granted->job, granted->attempt, granted->rank}, granted->node, granted->epoch});
      const engine::Lease* lease = durable.state->lease(granted->id);
      if (lease == nullptr || !lease->live()) continue;
      if (const auto link = link_of(granted->node)) link->send(grant_of(*durable.state, *lease));
    } else if (const auto* revoked = std::get_if<engine::LeaseRevoked>(&event)) {
      const engine::Lease* lease = durable.state->lease(revoked->id);
      if (lease == nullptr || !lease->live()) continue;
      if (const auto link = link_of(lease->node)) link->send(order_of(*revoked, lease->epoch));
    } else if (const auto* ended = std::get_if<engine::JobEnded>(&event)) {
      forget_checkpoints(ended->id);
    } else if (const auto* again = std::get_if<engine::JobRequeued>(&event)) {
      forget_checkpoints(again->id);
    } else if (const auto* paused = std::get_if<engine::JobPaused>(&event)) {
      forget_checkpoints(paused->id);
    } else if (const LeaseId changed = engine::lease_changed_by(event); changed != LeaseId{}) {
      const engine::Lease* lease = durable.state->lease(changed);
      if (lease == nullptr || !lease->live()) continue;
      if (const auto link = link_of(lease->node)) send_change(*link, *lease);
    } else if (const auto* extended = std::get_if<engine::ChunkExtended>(&event)) {
      send_units(*durable.state, *extended);
    } else if (const auto* ordered = std::get_if<engine::DeviceOrdered>(&event)) {
      const engine::Device* device = durable.state->device(ordered->device);
      if (device == nullptr || device->record.order != ordered->order) continue;
      if (const auto link = link_of(device->node)) link->send(order_for(*durable.state, *device));
    } else if (const auto* made = std::get_if<engine::VolumeCreated>(&event)) {
      order_volume_work(*durable.state, durable.state->volumes.at(made->id));
    } else if (const auto* removed = std::get_if<engine::VolumeRemoved>(&event)) {
      order_volume_work(*durable.state, durable.state->volumes.at(removed->id));
    } else if (std::holds_alternative<engine::NodeStateChanged>(event)) {
      // What one node of a pool leaves undone, another does.
      for (const auto& [id, volume] : durable.state->volumes)
        if (volume.shared()) order_volume_work(*durable.state, volume);
    }
  }
}

// Nothing else has to be installed to see in the morning who was away and who waited in the night.
void AgentHub::note_moment() {
  if (!telemetry_.due(wall_clock())) return;
  loop_.read([this](const engine::State& state) {
    Telemetry::Moment moment{.at = wall_clock()};
    for (const auto& [id, node] : state.nodes)
      if (node.state != wire::NodeState::kRetired) moment.connected[id] = facts(id).connected;
    for (const auto& [key, jobs] : state.index.capacity->waiting()) {
      if (jobs.empty()) continue;
      const auto add = [&, tenant = key.tenant](JobId first, std::size_t count) {
        const engine::Job& job = state.jobs.at(first);
        Telemetry::Queue& queue = moment.queues[{tenant, job.ask.simulated}];
        queue.pending += count;
        queue.longest_wait = std::max(queue.longest_wait, state.now - job.submitted);
      };
      if (key.kind != engine::kNoKind) {  // All of a kind are after the same.
        add(*jobs.begin(), jobs.size());
        continue;
      }
      for (const JobId id : jobs) add(id, 1);
    }
    telemetry_.note(std::move(moment));
  });
}

void AgentHub::pulse() {
  note_moment();
  std::vector<NodeId> silent;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    for (auto at = promised_.begin(); at != promised_.end();) {
      if (now - at->second < options_.lease + options_.grace) {
        ++at;
        continue;
      }
      silent.push_back(at->first);
      at = promised_.erase(at);
    }
  }
  for (const NodeId node : silent) {
    if (const auto link = link_of(node)) link->part("silent", "no heartbeat came");
    options_.log(text(node) + " was silent for longer than its leases");
    loop_.submit({.origin = "local"},
                 engine::LoseNode{node, "no word from its agent for longer than its leases"},
                 [](const Outcome&) {});
  }
}

}  // namespace tranche::server
