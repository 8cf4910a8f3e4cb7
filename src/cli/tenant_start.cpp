// SPDX-License-Identifier: Apache-2.0
#include "cli/tenant_start.hpp"

#include <thread>

#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/human.hpp"
#include "wire/api_job.hpp"
#include "wire/api_party.hpp"
#include "wire/gpu_request.hpp"
#include "wire/job_spec.hpp"

namespace tranche::cli {
namespace {

using wire::JobDetail;
using wire::JobView;
using wire::PartyView;

wire::JobSpec job_of(const TenantStart& wish) {
  wire::JobSpec job;
  job.run = wish.run;
  job.name = "first job of " + wish.tenant;
  if (wish.gpus.empty()) return job;
  auto gpus = wire::parse_gpu_request(wish.gpus);
  if (!gpus)
    throw usage_failure("--gpus: " + wire::caret_text(wish.gpus, gpus.error()), "nothing was created");
  job.resources.gpus = std::move(*gpus);
  return job;
}

Answer<JobDetail> until_running(Session& session, const std::string& job) {
  for (auto pause = std::chrono::milliseconds(2);;
       pause = std::min(pause * 3 / 2, std::chrono::milliseconds(500))) {
    auto answer = session.get<JobDetail>("/v1/jobs/" + path_segment(job), Explain::kPreparation);
    const wire::JobState state = answer.value.job.state;
    if (state == wire::JobState::kRunning || wire::is_over(state)) return answer;
    if (!answer.value.job.reason.empty()) {
      session.say(job + " waits: " + answer.value.job.reason + "; see: tranche why " + job);
      return answer;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

void start_tenant(Session& session, const TenantStart& wish) {
  const auto began = std::chrono::steady_clock::now();
  const wire::JobSpec job = job_of(wish);
  const std::string who = wish.tenant + "/" + wish.user;
  const auto tenant = session.ask<PartyView>(
      {.method = "POST",
       .path = "/v1/tenants",
       .body = wire::to_json(wire::NewParty{.name = wish.tenant, .time_zone = wish.time_zone})});
  const auto user = session.ask<PartyView>(
      {.method = "POST",
       .path = "/v1/users",
       .body = wire::to_json(
           wire::NewParty{.name = wish.user, .parent = wish.tenant, .roles = {wire::Role::kTenantAdmin}})});
  const auto token = session.ask<wire::IssuedToken>(
      {.method = "POST", .path = "/v1/tokens", .body = wire::to_json(wire::NewToken{.party = who})});
  const auto submitted = session.ask<JobView>(
      {.method = "POST", .path = "/v1/jobs?owner=" + path_segment(who), .body = wire::to_json(job)});
  const auto seen = until_running(session, text(submitted.value.id));
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  const JobView& view = seen.value.job;
  const std::string state(wire::name_of(view.state));
  session.print("{\"tenant\":" + tenant.body + ",\"user\":" + user.body + ",\"token\":" + token.body +
                    ",\"job\":" + seen.body + "}",
                {.table =
                     [&] {
                       Table table({{"TENANT"}, {"USER"}, {"TOKEN"}, {"JOB"}, {"STATE"}, {"NODE"}});
                       table.add({wish.tenant, who, token.value.secret, text(view.id), state, view.node});
                       return table;
                     },
                 .names = [&] { return text(view.id) + "\n"; }});
  session.say("the token is shown this once; " + text(view.id) + " was " + state + " after " +
              std::to_string(took.count()) + " ms");
}

}  // namespace tranche::cli
