// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's end of every agent's link: greets, renews leases, carries grants out and reports in, and
// notices silence. It decides nothing: what it learns becomes a command, what it sends follows from events.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/certificate_authority.hpp"
#include "net/http.hpp"
#include "net/reply.hpp"
#include "server/checkpoint_store.hpp"
#include "server/log_names.hpp"
#include "server/log_store.hpp"
#include "server/loop.hpp"
#include "server/telemetry.hpp"
#include "server/workdir_store.hpp"
#include "wire/agent_message.hpp"
#include "wire/test_progress.hpp"

namespace tranche::server {

struct HubOptions {
  Duration heartbeat = std::chrono::seconds(5);
  Duration lease = std::chrono::seconds(30);
  Duration grace = std::chrono::seconds(10);  // Beyond a lease's end before its slices are granted again.
  std::chrono::seconds certificate_life = std::chrono::hours(24);
  std::function<std::string(const std::string& sealed)> unseal{};
  std::shared_ptr<const net::CertificateAuthority> authority{};
  std::shared_ptr<WorkdirStore> workdirs{};
  std::shared_ptr<CheckpointStore> checkpoints{};
  Log log = [](const std::string&) {};
};

// What is known of a node beyond the journal: whether it speaks, and what it measured last.
struct LinkFacts {
  bool connected = false;
  std::string address{};
  wire::Heartbeat last{};
  std::vector<wire::TestProgress> tests{};  // Of its devices, that are under way.
};

class AgentLink;

class AgentHub {
 public:
  // Before the loop is started: follows its records.
  AgentHub(Loop& loop, LogStore& logs, HubOptions options);
  ~AgentHub();
  AgentHub(const AgentHub&) = delete;
  AgentHub& operator=(const AgentHub&) = delete;

  void start();  // After the loop: from now on silence counts.
  void accept(net::Request&& request, net::Reply reply);
  // A piece of the working directory of a lease, for the node that holds the lease.
  void give_workdir(const net::Request& request, net::Reply reply);
  // A checkpoint from the node that saved it, and for the node that goes on with its job.
  void take_checkpoint(const net::Request& request, net::Reply reply);
  void give_checkpoint(const net::Request& request, net::Reply reply);
  void pulse();  // Every second or so.
  void close();  // Parts from everybody; before the loop ends.

  [[nodiscard]] LinkFacts facts(NodeId node) const;
  [[nodiscard]] const HubOptions& options() const { return options_; }
  [[nodiscard]] const Telemetry& telemetry() const { return telemetry_; }

  // A command in a running job. `on_data` and `on_end` come on a thread of the network.
  struct SessionCallbacks {
    std::function<void(const wire::SessionData&)> on_data{};
    std::function<void(const wire::SessionEnd&)> on_end{};
  };
  // Zero when the node is not connected.
  std::uint64_t open_session(NodeId node, wire::SessionOpen open, SessionCallbacks callbacks);
  bool send_session(std::uint64_t session, wire::SessionData data);
  void end_session(std::uint64_t session);

 private:
  friend class AgentLink;
  struct Session {
    NodeId node{};
    SessionCallbacks callbacks{};
  };

  void note_moment();
  void follow(const Durable& durable);
  void greet(const std::shared_ptr<AgentLink>& link, const wire::Hello& hello);
  void welcome(const std::shared_ptr<AgentLink>& link, const wire::Hello& hello, const engine::State& state);
  void receive(const std::shared_ptr<AgentLink>& link, const wire::AgentFrame& frame);
  void heard(const std::shared_ptr<AgentLink>& link, const wire::Heartbeat& heartbeat);
  void take_tests(const std::shared_ptr<AgentLink>& link, const wire::LogChunk& chunk);
  void keep_log(const std::shared_ptr<AgentLink>& link, const wire::LogChunk& chunk);
  void renew_certificate(const std::shared_ptr<AgentLink>& link, const wire::CertificateWish& wish);
  void carry(const std::shared_ptr<AgentLink>& link, std::uint64_t sequence, engine::Command command);
  void session_frame(const wire::AgentFrame& frame);
  void dropped(const std::shared_ptr<AgentLink>& link);
  [[nodiscard]] std::shared_ptr<AgentLink> link_of(NodeId node) const;
  [[nodiscard]] wire::LeaseGrant grant_of(const engine::State& state, const engine::Lease& lease) const;
  static void add_checkpoints(const engine::State& state,
                              const engine::Lease& lease,
                              wire::LeaseGrant& grant);
  [[nodiscard]] net::Response checkpoint_piece(const engine::State& state, JobId job, LeaseId source);
  // Who may send or have which: pieces are many, and the engine is asked once in a while.
  struct CheckpointRight {
    NodeId node{};
    LeaseId lease{}, source{};
    auto operator<=>(const CheckpointRight&) const = default;
  };
  void allow(const CheckpointRight& right, JobId job);
  [[nodiscard]] std::optional<JobId> allowed_job(const CheckpointRight& right) const;
  void forget_checkpoints(JobId job);
  void name_saved_in_vain(const std::shared_ptr<AgentLink>& link, const wire::SavedJobs& kept);
  void promise(NodeId node);
  void send_units(const engine::State& state, const engine::ChunkExtended& extended);
  void send_change(AgentLink& link, const engine::Lease& lease) const;
  void order_volume_work(const engine::State& state, const engine::Volume& volume);

  Loop& loop_;
  LogStore& logs_;
  HubOptions options_;
  mutable std::mutex mutex_;
  std::map<NodeId, std::shared_ptr<AgentLink>> links_;
  std::map<NodeId, LinkFacts> facts_;
  // When each node was last promised that its leases live on; monotonic.
  std::map<NodeId, std::chrono::steady_clock::time_point> promised_;
  LogNames log_names_;
  Telemetry telemetry_;
  std::map<std::uint64_t, Session> sessions_;
  std::uint64_t next_session_ = 1;
  std::map<LeaseId, std::chrono::steady_clock::time_point> checkpoints_asked_;
  std::map<CheckpointRight, std::pair<JobId, std::chrono::steady_clock::time_point>> checkpoint_rights_;
  bool closing_ = false;
};

}  // namespace tranche::server
