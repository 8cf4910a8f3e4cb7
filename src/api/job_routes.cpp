// SPDX-License-Identifier: Apache-2.0
// Jobs: submit, look at, explain, stop.
#include <algorithm>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "api/recurrence.hpp"
#include "api/submission.hpp"
#include "api/views.hpp"
#include "base/wall_clock.hpp"
#include "engine/admission.hpp"
#include "engine/feasible.hpp"
#include "engine/lease_meter.hpp"
#include "engine/start_window.hpp"
#include "engine/unit_forecast.hpp"
#include "engine/unit_quota.hpp"
#include "engine/why.hpp"
#include "wire/fields.hpp"
#include "wire/job_spec.hpp"
#include "wire/resolve_ask.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

// A job file in JSON, or in YAML when the request says so.
Result<wire::JobSpec, wire::Problem> read_spec(const Call& call) {
  const bool yaml = call.request.header("Content-Type").find("yaml") != std::string_view::npos;
  return yaml ? wire::parse_job_file(call.request.body) : wire::from_json<wire::JobSpec>(call.request.body);
}

void add_units(
    const State& state, PartyId owner, const engine::SubmitJob& command, Instant now, wire::JobPlan& out) {
  if (command.unit == wire::WorkUnit::kNone) return;
  const engine::JobGroup group{
      .unit = command.unit, .range = command.units, .milliseconds = command.milliseconds};
  out.units =
      engine::unit_estimate(state, owner, command.name, group.counted_in(), group.counted_total(), now);
}

void add_start(const State& state, PartyId owner, Instant now, wire::JobPlan& out) {
  const auto start = engine::planned_start(state, owner, out.ask, out.admission, now);
  if (!start) return;
  out.starts = *start;
  if (out.ask.window && !out.starts && !engine::is_open(*out.ask.window, now))
    out.starts = engine::open_span(*out.ask.window, now).from;
}

// Whether it would be let in is decided on the very command: whatever is refused when it is meant is refused
// here.
wire::JobPlan planned(const State& state, const Envelope& envelope, const engine::SubmitJob& command) {
  wire::JobPlan out{.ask = engine::with_whole_nodes(state, command.ask)};
  const auto decision = engine::decide(state, envelope, command);
  out.admitted = decision.has_value();
  if (!decision) out.refusal = decision.error();
  add_units(state, command.owner, command, envelope.at, out);
  if (const auto admitted = engine::admit(state, command.owner, out.ask, envelope.at)) {
    out.admission = admitted->admission;
    out.hold = admitted->hold;
    out.ask.time = admitted->time;
    out.ask.spend = admitted->spend;
  }
  add_start(state, command.owner, envelope.at, out);
  const Instant starts = out.starts.value_or(envelope.at);
  out.price =
      engine::job_price(state, command.owner, out.ask, out.admission, starts, engine::work_ahead(command));
  return out;
}

void plan(Api& api, Call call, Submission submission, const std::string& owner_name) {
  const Envelope envelope = call.envelope;
  api.view(std::move(call),
           [submission = std::move(submission), owner_name, envelope](
               const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             engine::SubmitJob command = submission.command;
             command.owner = owner_name.empty() ? actor.party : engine::find_path(state, owner_name);
             if (auto refusal = engine::check_access(state, actor, engine::Action::kSubmitJob, command.owner))
               return refuse(*refusal);
             Envelope now = envelope;
             now.at = clock_at_least(state.now);
             wire::JobPlan out = planned(state, now, command);
             out.sizing = submission.sizing;
             return json(out);
           });
}

void submit_checked(Api& api, Call call, wire::JobSpec& spec);

// "08:00" in a zone: the next time that clocks there show it.
std::optional<wire::Problem> take_deadline(const Call& call, wire::JobSpec& spec) {
  const std::string given(call.query_value("deadline")), name(call.query_value("zone"));
  if (given.empty()) return std::nullopt;
  const auto zone = Zone::find(name.empty() ? "UTC" : name);
  if (!zone) return wire::Problem{"zone", "there is no time zone '" + name + "'", "Europe/Madrid"};
  const auto when = read_time(given, *zone, wall_clock());
  if (!when) return wire::Problem{"deadline", when.error(), "08:00"};
  spec.deadline = when->exact ? *when->exact : zone->instant(when->local);
  return std::nullopt;
}

void submit(Api& api, Call call) {
  auto spec = read_spec(call);
  if (!spec) return call.reply.send(problem(spec.error(), call.envelope.request_id));
  if (const auto wrong = take_deadline(call, *spec))
    return call.reply.send(problem(*wrong, call.envelope.request_id));
  if (spec->workdir.empty()) return submit_checked(api, std::move(call), *spec);
  const std::string owner(call.query_value("owner"));
  api.loop().read([&api, call = std::move(call), spec = std::move(*spec), owner](const State& state) mutable {
    const PartyId party = owner.empty() ? call.envelope.actor : engine::find_path(state, owner);
    if (const auto wrong = workdir_problem(api, state, party, spec.workdir))
      return call.reply.send(problem(*wrong, call.envelope.request_id));
    submit_checked(api, std::move(call), spec);
  });
}

void submit_checked(Api& api, Call call, wire::JobSpec& spec) {
  auto read = read_submission(api, std::move(spec));
  if (!read) return call.reply.send(problem(read.error(), call.envelope.request_id));
  const std::string owner(call.query_value("owner"));
  if (call.query_value("dry_run") == "true") return plan(api, std::move(call), std::move(*read), owner);
  engine::SubmitJob command = std::move(read->command);
  const auto created = [](const server::Outcome& outcome) {
    const auto& event = std::get<engine::JobSubmitted>(outcome.events->front());
    const engine::Job job{.id = event.id,
                          .owner = event.owner,
                          .admission = event.admission,
                          .submitted = outcome.at,
                          .name = event.name,
                          .ask = event.ask};
    net::Response response =
        versioned(json(view_of(*outcome.state, job, engine::path_of(*outcome.state, job.owner)), 201),
                  outcome.sequence);
    response.headers.emplace_back("Location", "/v1/jobs/" + text(job.id));
    return response;
  };
  if (owner.empty()) return api.run(std::move(call), std::move(command), created);
  api.with_party(std::move(call), owner, [&api, command, created](Call next, PartyId party) mutable {
    command.owner =
        party == PartyId{} ? PartyId::make(PartyKind::kUser, 0) : party;  // Unknown: refused as such.
    api.run(std::move(next), std::move(command), created);
  });
}

// The ids of the page: every owner that may be seen gives its next ones, and the smallest win.
std::vector<JobId> page_ids(const State& state, const Actor& actor, const Page& page, PartyId under) {
  std::vector<JobId> ids;
  for (const auto& [owner, jobs] : state.index.jobs_by_owner) {
    if (under != PartyId{} && !engine::is_at_or_below(state, owner, under)) continue;
    if (!engine::may(state, actor, engine::Action::kViewJob, owner)) continue;
    const auto from = std::upper_bound(jobs.begin(), jobs.end(), JobId{page.after});
    ids.insert(ids.end(), from, jobs.end());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

void list(Api& api, Call call) {
  const auto page = page_of(call);
  if (!page) return call.reply.send(problem(page.error(), call.envelope.request_id));
  const std::string owner(call.query_value("owner"));
  const std::string state_name(call.query_value("state"));
  const auto wanted = wire::from_name<wire::JobState>(state_name);
  if (!state_name.empty() && !wanted) {
    return call.reply.send(
        problem(wire::Problem{"state",
                              "there is no such state",
                              "pending, running, paused, held, succeeded, failed or stopped"},
                call.envelope.request_id));
  }
  api.view(std::move(call),
           [page = *page, owner, wanted](const State& state,
                                         const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const PartyId under = owner.empty() ? PartyId{} : engine::find_path(state, owner);
             if (!owner.empty() && (under == PartyId{} || !engine::can_see(state, actor, under)))
               return refuse(engine::not_found());
             std::map<PartyId, std::string> paths;
             wire::JobList out;
             for (const JobId id : page_ids(state, actor, page, under)) {
               const engine::Job& job = state.jobs.at(id);
               if (wanted && job.state != *wanted) continue;
               if (out.items.size() == page.limit) {
                 out.next = std::to_string(out.items.back().id.value);
                 break;
               }
               auto path = paths.find(job.owner);
               if (path == paths.end())
                 path = paths.emplace(job.owner, engine::path_of(state, job.owner)).first;
               out.items.push_back(view_of(state, job, path->second));
             }
             net::Response response = json(out);
             // In the header too: a client can ask for the next page before it has read this one.
             if (!out.next.empty()) response.headers.emplace_back("Next-Cursor", out.next);
             return response;
           });
}

JobId job_named(const Call& call) {
  return {parse_id("job_", call.parameters.front()).value_or(0)};
}

void show(Api& api, Call call) {
  const JobId id = job_named(call);
  api.view(std::move(call),
           [id](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::Job* job = state.job(id);
             if (job == nullptr || !engine::can_see(state, actor, *job)) return refuse(engine::not_found());
             return versioned(json(detail_of(state, *job)), job->version);
           });
}

Result<net::Response, wire::Refusal> why_view(const State& state,
                                              const Actor& actor,
                                              JobId id,
                                              server::Forecast forecast) {
  const engine::Job* job = state.job(id);
  if (job == nullptr || !engine::can_see(state, actor, *job)) return refuse(engine::not_found());
  wire::Why why = engine::explain(state, actor, *job);
  if (job->state == wire::JobState::kPending) {
    why.starts = forecast.starts;
    why.sooner = std::move(forecast.sooner);
  }
  return json(why);
}

void why(Api& api, Call call) {
  const JobId id = job_named(call);
  const bool without = call.query_value("forecast") == "false";
  const auto asked = std::make_shared<Call>(std::move(call));
  const auto answer = [&api, id, asked](server::Forecast forecast) {
    const auto kept = std::make_shared<server::Forecast>(std::move(forecast));
    api.view(std::move(*asked), [id, kept](const State& state, const Actor& actor) {
      return why_view(state, actor, id, *kept);
    });
  };
  // The runs ahead take longer than a look: beside the engine, then back to it.
  if (without || !api.foretell([&api, id, answer] { answer(api.forecaster().forecast(id)); })) answer({});
}

// The job as the command left it.
template <class Command>
void change(Api& api, Call call, Command command) {
  api.run(std::move(call), command, [id = command.id](const server::Outcome& outcome) {
    const engine::Job* job = outcome.state->job(id);
    if (job == nullptr) return no_content();  // Asked again long after: it has been forgotten.
    return versioned(json(view_of(*outcome.state, *job, engine::path_of(*outcome.state, job->owner))),
                     job->version);
  });
}

void stop(Api& api, Call call) {
  const engine::StopJob command{job_named(call)};
  change(api, std::move(call), command);
}

void release(Api& api, Call call) {
  const engine::ReleaseJob command{job_named(call)};
  change(api, std::move(call), command);
}

void pause(Api& api, Call call) {
  const engine::PauseJob command{job_named(call), call.query_value("from_start") == "true"};
  change(api, std::move(call), command);
}

void resume(Api& api, Call call) {
  const engine::ResumeJob command{job_named(call)};
  change(api, std::move(call), command);
}

void job_schema(Api&, Call call) {
  call.reply.send(json_response(200, wire::job_file_schema()));
}

}  // namespace

std::vector<Route> job_routes() {
  return {
      {.method = "POST",
       .path = "/v1/jobs",
       .id = "submit_job",
       .tag = "jobs",
       .summary = "Submit a job",
       .takes = body<wire::JobSpec>(),
       .gives = body<wire::JobView>(),
       .status = 201,
       .query = {"dry_run", "owner", "deadline", "zone"},
       .handle = submit},
      {.method = "GET",
       .path = "/v1/jobs",
       .id = "list_jobs",
       .tag = "jobs",
       .summary = "Jobs that you may see, oldest first",
       .gives = body<wire::JobList>(),
       .query = {"limit", "cursor", "state", "owner"},
       .handle = list},
      {.method = "GET",
       .path = "/v1/jobs/{job}",
       .id = "show_job",
       .tag = "jobs",
       .summary = "One job",
       .gives = body<wire::JobDetail>(),
       .handle = show},
      {.method = "GET",
       .path = "/v1/jobs/{job}/why",
       .id = "job_why",
       .tag = "jobs",
       .summary =
           "Why a job waits, when it will start and what would start it sooner; forecast=false: only why",
       .gives = body<wire::Why>(),
       .query = {"forecast"},
       .handle = why},
      {.method = "POST",
       .path = "/v1/jobs/{job}/stop",
       .id = "stop_job",
       .tag = "jobs",
       .summary = "Stop a job",
       .gives = body<wire::JobView>(),
       .handle = stop},
      {.method = "POST",
       .path = "/v1/jobs/{job}/release",
       .id = "release_job",
       .tag = "jobs",
       .summary = "Try a job again that is held because the platform failed it too often",
       .gives = body<wire::JobView>(),
       .handle = release},
      {.method = "POST",
       .path = "/v1/jobs/{job}/pause",
       .id = "pause_job",
       .tag = "jobs",
       .summary = "Put a job aside: it saves what it did, gives back its devices, and keeps its storage; "
                  "from_start=true though it saves nothing",
       .gives = body<wire::JobView>(),
       .query = {"from_start"},
       .handle = pause},
      {.method = "POST",
       .path = "/v1/jobs/{job}/resume",
       .id = "resume_job",
       .tag = "jobs",
       .summary = "Take a paused job up again: it is admitted like a new one, and queues",
       .gives = body<wire::JobView>(),
       .handle = resume},
      {.method = "GET",
       .path = "/v1/schemas/job",
       .id = "job_schema",
       .tag = "jobs",
       .summary = "JSON Schema of the job file",
       .auth = Auth::kNone,
       .handle = job_schema},
  };
}

}  // namespace tranche::api
