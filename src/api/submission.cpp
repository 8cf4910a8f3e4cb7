// SPDX-License-Identifier: Apache-2.0
#include "api/submission.hpp"

#include "server/workdir_store.hpp"
#include "wire/resolve_ask.hpp"

namespace tranche::api {
namespace {

// Units that the command names become a group of chunks; others are the job's own affair.
std::optional<wire::Problem> take_units(const wire::JobSpec& spec, engine::SubmitJob& command) {
  if (!spec.units || spec.units->empty()) return std::nullopt;
  const auto& [plural, range] = *spec.units->begin();
  const std::string name = plural.ends_with('s') ? plural.substr(0, plural.size() - 1) : plural;
  if (spec.run.find("{" + name) == std::string::npos) return std::nullopt;
  const auto unit = wire::from_name<wire::WorkUnit>(name);
  if (!unit || *unit == wire::WorkUnit::kNone || spec.units->size() != 1)
    return wire::Problem{
        "units", "names one kind of unit, such as {frames: 1..240}", "frames, seconds or units"};
  constexpr std::uint32_t kTriesOfUnits = 3;
  command.unit = *unit;
  command.units = range;
  command.chunk = spec.chunk;
  command.unit_tries = spec.retry ? spec.retry->attempts + 1 : kTriesOfUnits;
  return std::nullopt;
}

std::optional<wire::Problem> take_after(const wire::JobSpec& spec, engine::SubmitJob& command) {
  for (const std::string& word : spec.after) {
    std::string_view name = word;
    engine::After after;
    if (name.ends_with(":any")) after.any = true;
    if (after.any || name.ends_with(":ok")) name = name.substr(0, name.rfind(':'));
    const auto id = parse_id("job_", name);
    if (!id)
      return wire::Problem{
          "after", "'" + word + "' is not a job", "job_00007K, job_00007K:ok or job_00007K:any"};
    after.job = {*id};
    command.after.push_back(after);
  }
  return std::nullopt;
}

}  // namespace

std::optional<wire::Problem> workdir_problem(const Api& api,
                                             const engine::State& state,
                                             PartyId owner,
                                             const std::string& digest) {
  const server::WorkdirStore* store = api.options().workdirs;
  if (!server::WorkdirStore::is_digest(digest) || store == nullptr)
    return wire::Problem{"workdir",
                         "'" + digest + "' is not something that was uploaded",
                         "tranche run uploads a directory by itself; the API takes PUT /v1/workdirs first"};
  if (store->held(engine::tenant_of(state, owner), digest).complete) return std::nullopt;
  return wire::Problem{"workdir", "nothing was uploaded under this digest", "upload it again"};
}

Result<engine::SubmitJob, wire::Problem> read_submission(Api& api, wire::JobSpec spec) {
  const auto catalogue = api.catalogue();
  const auto ask = wire::resolve_ask(spec, catalogue->skus, catalogue->settings);
  if (!ask) return refuse(ask.error());
  const wire::TextMap secrets = spec.secrets;
  for (const auto& [name, secret] : secrets) spec.secrets.set(name, api.sealer().seal(secret));
  engine::SubmitJob command{.owner = {}, .name = spec.name, .ask = *ask, .spec = wire::to_json(spec)};
  if (const auto wrong = take_units(spec, command)) return refuse(*wrong);
  if (const auto wrong = take_after(spec, command)) return refuse(*wrong);
  return command;
}

}  // namespace tranche::api
