// SPDX-License-Identifier: Apache-2.0
// A command inside a running job, over a WebSocket: for `exec` and `cp`.
#include <atomic>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"
#include "server/agent_hub.hpp"
#include "wire/session_frame.hpp"

namespace tranche::api {
namespace {

using engine::State;
using wire::SessionFrame;

// Between a person's socket and the agent's session. Each side may go first.
class Bridge : public std::enable_shared_from_this<Bridge> {
 public:
  Bridge(server::AgentHub& hub, std::vector<engine::Lease> leases) : hub_(hub), leases_(std::move(leases)) {}

  void opened(std::weak_ptr<net::WebSocket> socket) { socket_ = std::move(socket); }

  void received(const std::string& message) {
    if (message.empty()) return;
    const std::string_view bytes = std::string_view(message).substr(1);
    switch (static_cast<SessionFrame>(message.front())) {
      case SessionFrame::kOpen:
        return open(bytes);
      case SessionFrame::kInput:
        if (!bytes.empty()) hub_.send_session(session_, {.bytes = std::string(bytes)});
        return;
      case SessionFrame::kInputEnd:
        hub_.send_session(session_, {});
        return;
      default:
        return end({.exit_code = 255, .message = "this frame is not the client's to send"});
    }
  }
  void closed() {
    if (session_ != 0) hub_.end_session(session_);
  }

 private:
  void open(std::string_view body) {
    const auto request = wire::from_json<wire::ExecRequest>(body);
    if (!request || request->command.empty())
      return end({.exit_code = 255, .message = "the first frame names a command"});
    if (session_ != 0) return end({.exit_code = 255, .message = "one command a connection"});
    if (request->rank >= leases_.size())
      return end({.exit_code = 255, .message = "the gang has no member of this rank"});
    const engine::Lease& lease = leases_[request->rank];
    const auto self = shared_from_this();
    session_ = hub_.open_session(lease.node,
                                 {.lease = lease.id,
                                  .epoch = lease.epoch,
                                  .command = request->command,
                                  .terminal = request->terminal,
                                  .rows = request->rows,
                                  .columns = request->columns},
                                 {.on_data =
                                      [self](const wire::SessionData& data) {
                                        const bool out = data.stream == wire::LogStream::kStdout;
                                        self->send(wire::session_frame(
                                            out ? SessionFrame::kStdout : SessionFrame::kStderr, data.bytes));
                                      },
                                  .on_end =
                                      [self](const wire::SessionEnd& how) {
                                        self->end({how.exit_code, how.exit_signal, how.message});
                                      }});
    if (session_ == 0) end({.exit_code = 255, .message = "the job's node is not connected"});
  }
  void send(std::string frame) {
    if (const auto socket = socket_.lock()) socket->send(std::move(frame));
  }
  void end(const wire::ExecEnd& how) {
    send(wire::session_frame(SessionFrame::kEnd, wire::to_json(how)));
    if (const auto socket = socket_.lock()) socket->close(1000, "ended");
  }

  server::AgentHub& hub_;
  std::vector<engine::Lease> leases_;
  std::weak_ptr<net::WebSocket> socket_;
  std::atomic<std::uint64_t> session_ = 0;
};

void exec(Api& api, Call call) {
  const JobId id{parse_id("job_", call.parameters.front()).value_or(0)};
  api.loop().read([&api, call = std::move(call), id](const State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const std::string& request_id = call.envelope.request_id;
    const auto actor = engine::actor_of(state, call.envelope);
    if (!actor) return call.reply.send(unauthenticated(request_id));
    const engine::Job* job = state.job(id);
    if (job == nullptr || !engine::can_see(state, *actor, *job)) {
      api.note_denial(call.envelope, "job.exec", engine::not_found());
      return call.reply.send(problem(engine::not_found(), request_id));
    }
    if (!engine::may(state, *actor, engine::Action::kStopJob, job->owner)) {
      const wire::Refusal refusal{.reason = wire::Reason::kForbidden,
                                  .rule = "role",
                                  .message = "you may see this job, but not enter it",
                                  .fix = "ask its owner"};
      api.note_denial(call.envelope, "job.exec", refusal);
      return call.reply.send(problem(refusal, request_id));
    }
    if (job->state != wire::JobState::kRunning) {
      return call.reply.send(problem(wire::Refusal{.reason = wire::Reason::kConflict,
                                                   .rule = "running",
                                                   .message = text(id) + " is not running",
                                                   .fix = "tranche show " + text(id)},
                                     request_id));
    }
    std::vector<engine::Lease> leases;
    for (const LeaseId lease : job->leases) leases.push_back(state.leases.at(lease));
    auto bridge = std::make_shared<Bridge>(*api.options().hub, std::move(leases));
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [bridge](net::WebSocket&, const std::string& message) {
      bridge->received(message);
    };
    callbacks.on_close = [bridge](std::uint16_t, const std::string&) { bridge->closed(); };
    bridge->opened(call.reply.upgrade(
        std::move(callbacks),
        {.queue_bytes_max = 16U << 20U, .kind = net::MessageKind::kBinary, .protocol = {}}));
  });
}

}  // namespace

std::vector<Route> exec_routes() {
  return {{.method = "GET",
           .path = "/v1/jobs/{job}/exec",
           .id = "exec_in_job",
           .tag = "jobs",
           .summary = "Run a command inside a running job, over a WebSocket",
           .handle = exec}};
}

}  // namespace tranche::api
