// SPDX-License-Identifier: Apache-2.0
#include "cli/interactive_job.hpp"

#include <thread>

#include "cli/exec_session.hpp"
#include "cli/human.hpp"
#include "wire/api_job.hpp"

namespace tranche::cli {
namespace {

// Running, or over with what it said; says why it waits when that changes.
wire::JobDetail until_running(Session& session, const std::string& path, const std::string& id) {
  std::string told;
  for (auto pause = std::chrono::milliseconds(20);;
       pause = std::min(pause * 3 / 2, std::chrono::milliseconds(1000))) {
    auto now = session.get<wire::JobDetail>(path, Explain::kPreparation);
    const wire::JobView& job = now.value.job;
    if (wire::is_over(job.state) || job.state == wire::JobState::kRunning) return std::move(now.value);
    if (job.reason != told) session.say(id + " waits: " + job.reason + "; see: tranche why " + id);
    told = job.reason;
    std::this_thread::sleep_for(pause);
  }
}

// What it held is free when its command has returned; a node that takes its time is not waited for.
void stop_and_wait(Session& session, const std::string& path) {
  static_cast<void>(session.try_call({.method = "POST", .path = path + "/stop"}));
  auto pause = std::chrono::milliseconds(10);
  for (int look = 0; look < 20; ++look, pause = std::min(pause * 3 / 2, std::chrono::milliseconds(500))) {
    const auto now = session.get<wire::JobDetail>(path, Explain::kPreparation);
    if (wire::is_over(now.value.job.state)) return;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

wire::ExecEnd run_interactively(Session& session, InteractiveJob wish, const std::string& greeting) {
  wish.job.kind = wire::WorkloadKind::kInteractive;
  if (wish.command.empty()) wish.command = {"/bin/sh"};
  std::string submit = "/v1/jobs";
  if (!wish.owner.empty()) submit += "?owner=" + path_segment(wish.owner);
  const auto made =
      session.ask<wire::JobView>({.method = "POST", .path = submit, .body = wire::to_json(wish.job)});
  const std::string id = text(made.value.id);
  const std::string path = "/v1/jobs/" + path_segment(id);
  session.say(id + greeting);
  wire::ExecEnd end{.exit_code = 255, .message = id + " ended before the command could start"};
  const wire::JobDetail now = until_running(session, path, id);
  if (wire::is_over(now.job.state)) {
    if (!now.message.empty()) end.message = now.message;
  } else {
    end = run_in_job(session, id, wish.command, {.idle = wish.idle});
  }
  stop_and_wait(session, path);
  return end;
}

}  // namespace tranche::cli
