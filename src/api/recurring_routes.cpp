// SPDX-License-Identifier: Apache-2.0
// Jobs that run again and again: set, look at, remove.
#include "api/api.hpp"
#include "api/booking_views.hpp"
#include "api/named.hpp"
#include "api/problem.hpp"
#include "api/recurring_plan.hpp"
#include "api/submission.hpp"
#include "base/wall_clock.hpp"
#include "wire/recurring.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

wire::RecurringView view_of(const State& state, const engine::RecurringJob& job) {
  wire::RecurringView view{.name = job.key.name,
                           .owner = engine::path_of(state, job.owner),
                           .every = job.every,
                           .zone = job.zone,
                           .goes_on = !job.rule.empty(),
                           .runs = job.runs,
                           .passed_over = job.passed_over,
                           .problem = job.problem};
  if (!job.times.empty()) {
    view.next = job.times.front();
    view.planned_to = job.times.back();
  }
  if (job.last != JobId{}) view.last = job.last;
  return view;
}

void set(Api& api, Call call) {
  auto spec = parse<wire::RecurringSpec>(call);
  if (!spec) return call.reply.send(problem(spec.error(), call.envelope.request_id));
  if (!spec->job.after.empty() || spec->job.deadline)
    return call.reply.send(problem(
        wire::Problem{"job", "a job that runs again and again waits for no other, and has no deadline", ""},
        call.envelope.request_id));
  auto read = read_submission(api, spec->job);
  if (!read) return call.reply.send(problem(read.error(), call.envelope.request_id));
  engine::SetRecurring command{.name = spec->name,
                               .job = {.ask = std::move(read->command.ask),
                                       .spec = std::move(read->command.spec),
                                       .unit = read->command.unit,
                                       .units = read->command.units,
                                       .chunk = read->command.chunk,
                                       .unit_tries = read->command.unit_tries},
                               .every = spec->every};
  const std::string owner(call.query_value("owner"));
  api.loop().read(
      [&api, call = std::move(call), spec = std::move(*spec), command, owner](const State& state) mutable {
        const PartyId party = owner.empty() ? call.envelope.actor : engine::find_path(state, owner);
        if (!spec.job.workdir.empty())
          if (const auto wrong = workdir_problem(api, state, party, spec.job.workdir))
            return call.reply.send(problem(*wrong, call.envelope.request_id));
        command.zone = spec.zone.empty() ? zone_of(state, party) : spec.zone;
        const auto now = wall_clock();
        auto first = first_times(spec, command.zone, std::max(now, state.now));
        if (!first) return call.reply.send(problem(first.error(), call.envelope.request_id));
        command.times = std::move(first->times);
        command.rule = std::move(first->rule);
        command.planned_to = first->planned_to;
        // Nobody of that name: refused by the engine like any other that may not be seen.
        command.owner = party == PartyId{} ? PartyId::make(PartyKind::kUser, 0) : party;
        api.run(std::move(call), std::move(command), [](const server::Outcome& outcome) {
          const auto& event = std::get<engine::RecurringSet>(outcome.events->front());
          return json(view_of(*outcome.state, outcome.state->work.recurring.at(event.key)));
        });
      });
}

void list(Api& api, Call call) {
  api.view(std::move(call),
           [](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             wire::RecurringList out;
             for (const auto& [key, job] : state.work.recurring)
               if (engine::may(state, actor, engine::Action::kViewJob, job.owner))
                 out.items.push_back(view_of(state, job));
             return json(out);
           });
}

void show(Api& api, Call call) {
  const std::string name = call.parameters.front();
  api.view(std::move(call),
           [name](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             const engine::RecurringJob* job = find_named(state, actor, state.work.recurring, name);
             if (job == nullptr) return refuse(engine::not_found());
             return json(view_of(state, *job));
           });
}

void remove(Api& api, Call call) {
  remove_named<engine::RemoveRecurring>(api, std::move(call), &engine::Workloads::recurring);
}

}  // namespace

std::vector<Route> recurring_routes() {
  return {{.method = "PUT",
           .path = "/v1/recurring",
           .id = "set_recurring",
           .tag = "jobs",
           .summary = "Run a job again and again, by the calendar",
           .takes = body<wire::RecurringSpec>(),
           .gives = body<wire::RecurringView>(),
           .query = {"owner"},
           .handle = set},
          {.method = "GET",
           .path = "/v1/recurring",
           .id = "list_recurring",
           .tag = "jobs",
           .summary = "Jobs that run again and again, that you may see",
           .gives = body<wire::RecurringList>(),
           .handle = list},
          {.method = "GET",
           .path = "/v1/recurring/{name}",
           .id = "show_recurring",
           .tag = "jobs",
           .summary = "One of them",
           .gives = body<wire::RecurringView>(),
           .handle = show},
          {.method = "DELETE",
           .path = "/v1/recurring/{name}",
           .id = "remove_recurring",
           .tag = "jobs",
           .summary = "Run it no more; what runs now goes on",
           .status = 204,
           .handle = remove}};
}

}  // namespace tranche::api
