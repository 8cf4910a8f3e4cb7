// SPDX-License-Identifier: Apache-2.0
// Jobs that run again and again: set, look at, remove. The calendar becomes instants here.
#include "api/api.hpp"
#include "api/booking_views.hpp"
#include "api/named.hpp"
#include "api/problem.hpp"
#include "api/recurrence.hpp"
#include "api/submission.hpp"
#include "wire/recurring.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

constexpr std::size_t kTimesMax = 1000;

wire::RecurringView view_of(const State& state, const engine::RecurringJob& job) {
  wire::RecurringView view{.name = job.key.name,
                           .owner = engine::path_of(state, job.owner),
                           .every = job.every,
                           .zone = job.zone,
                           .left = job.times.size(),
                           .runs = job.runs,
                           .passed_over = job.passed_over,
                           .problem = job.problem};
  if (!job.times.empty()) {
    view.next = job.times.front();
    view.last_planned = job.times.back();
  }
  if (job.last != JobId{}) view.last = job.last;
  return view;
}

// "weekdays 22:00" in its two parts: on which days, and when.
struct DaysAndTime {
  std::string days{}, time{};
};
std::optional<DaysAndTime> split(const std::string& every) {
  const auto space = every.rfind(' ');
  if (space == std::string::npos) return std::nullopt;
  DaysAndTime out{every.substr(0, space), every.substr(space + 1)};
  if (out.time.find(':') == std::string::npos) return std::nullopt;
  for (const std::string_view plural : {"days", "weekdays", "weekends", "weeks", "months"})
    if (out.days == plural) out.days.pop_back();
  if (out.days == "daily") out.days = "day";
  return out;
}

Result<std::vector<Instant>, wire::Problem> times_of(const wire::RecurringSpec& spec,
                                                     const std::string& zone_name,
                                                     Instant now) {
  const auto wrong = [](std::string what, std::string message, std::string hint = {}) {
    return refuse(wire::Problem{std::move(what), std::move(message), std::move(hint)});
  };
  const auto zone = Zone::find(zone_name);
  if (!zone)
    return wrong("zone", "there is no time zone '" + zone_name + "'", "an IANA name such as Europe/Madrid");
  const auto parts = split(spec.every);
  if (!parts) return wrong("every", "must be days and a time of day", "for example: weekdays 22:00");
  const auto from = read_time(parts->time, *zone, now);
  if (!from) return wrong("every", from.error());
  const auto repeat = read_repeat(parts->days, spec.times, spec.until);
  if (!repeat) return wrong("every", repeat.error());
  const auto spans = expand(*zone, {from->local, std::chrono::minutes(1)}, *repeat, kTimesMax);
  if (!spans) return wrong("every", spans.error());
  std::vector<Instant> times;
  for (const Span& span : *spans)
    if (span.from > now) times.push_back(span.from);
  if (times.empty()) return wrong("until", "no time is left before then");
  return times;
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
                               .job = {.ask = std::move(read->ask),
                                       .spec = std::move(read->spec),
                                       .unit = read->unit,
                                       .units = read->units,
                                       .chunk = read->chunk,
                                       .unit_tries = read->unit_tries},
                               .every = spec->every};
  const std::string owner(call.query_value("owner"));
  api.loop().read(
      [&api, call = std::move(call), spec = std::move(*spec), command, owner](const State& state) mutable {
        const PartyId party = owner.empty() ? call.envelope.actor : engine::find_path(state, owner);
        if (!spec.job.workdir.empty())
          if (const auto wrong = workdir_problem(api, state, party, spec.job.workdir))
            return call.reply.send(problem(*wrong, call.envelope.request_id));
        command.zone = spec.zone.empty() ? zone_of(state, party) : spec.zone;
        const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
        auto times = times_of(spec, command.zone, std::max(now, state.now));
        if (!times) return call.reply.send(problem(times.error(), call.envelope.request_id));
        command.times = std::move(*times);
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
