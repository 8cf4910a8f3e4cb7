// SPDX-License-Identifier: Apache-2.0
#include "api/submission.hpp"

#include <limits>

#include "api/recurrence.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "engine/start_window.hpp"
#include "server/sized_job.hpp"
#include "server/workdir_store.hpp"
#include "wire/mount_place.hpp"
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
  command.unit = *unit;
  command.units = range;
  command.chunk = spec.chunk;
  command.unit_tries = spec.retry ? spec.retry->attempts + 1 : wire::kTriesOfUnits;
  if (!spec.media) return std::nullopt;
  for (const Duration length : spec.media->pieces) {
    if (length < Duration{} || length > std::chrono::hours(24 * 31))
      return wire::Problem{"media.pieces", "a piece of a clip is no longer than a month", "10s"};
    command.milliseconds.push_back(std::chrono::round<std::chrono::milliseconds>(length).count());
  }
  return std::nullopt;
}

constexpr int kOffsetYears = 10;  // Of a window's zone: no job waits longer, and few recur longer.

// Minutes of a day that a person wrote as 22:00.
std::optional<std::uint32_t> minute_of_day(const std::string& text, const Zone& zone, Instant now) {
  if (text.find_first_not_of("0123456789:") != std::string::npos) return std::nullopt;
  const auto when = read_time(text, zone, now);
  if (!when) return std::nullopt;
  const auto day = std::chrono::floor<std::chrono::days>(when->local);
  return static_cast<std::uint32_t>(std::chrono::floor<std::chrono::minutes>(when->local - day).count());
}

// The offsets that hold from now on.
std::vector<wire::ZoneOffset> offsets_ahead(const Zone& zone, Instant now) {
  std::vector<wire::ZoneOffset> ahead;
  for (const wire::ZoneOffset& offset : zone.offsets()) {
    if (offset.from <= now) {
      ahead.assign(1, offset);
    } else if (offset.from < now + std::chrono::years(kOffsetYears)) {
      ahead.push_back(offset);
    }
  }
  return ahead;
}

Duration length_of(const engine::StartWindow& window) {
  const std::uint32_t day = window.to_minute > window.from_minute ? 0 : 24 * 60;
  return std::chrono::minutes(day + window.to_minute - window.from_minute);
}

std::optional<wire::Problem> take_window(const wire::JobSpec& spec, engine::SubmitJob& command) {
  if (!spec.window) return std::nullopt;
  const wire::JobWindow& wish = *spec.window;
  if (!wish.recurrence.empty() && wish.recurrence != "FREQ=DAILY")
    return wire::Problem{
        "window.recurrence", "a window opens every day", "leave it out, or book: tranche book"};
  const std::string name = wish.tz.empty() ? "UTC" : wish.tz;
  const auto zone = Zone::find(name);
  if (!zone) return wire::Problem{"window.tz", "there is no time zone '" + name + "'", "Europe/Madrid"};
  const auto now = wall_clock();
  const auto from = minute_of_day(wish.start, *zone, now);
  const auto to = minute_of_day(wish.end, *zone, now);
  if (!from || !to || *from == *to)
    return wire::Problem{"window",
                         "'" + wish.start + "-" + wish.end + "' is no span of hours",
                         "two times of day such as 22:00 and 06:00; for a date: tranche book"};
  engine::StartWindow window{*from, *to, name, wish.at_end, offsets_ahead(*zone, now)};
  const bool starts_anew =
      wish.at_end == wire::WindowEnd::kStop && !spec.checkpoint && command.unit == wire::WorkUnit::kNone;
  if (starts_anew && command.ask.time > length_of(window))
    return wire::Problem{"window",
                         "its time limit of " + text(command.ask.time) + " is longer than the window of " +
                             text(length_of(window)) + ", and without a checkpoint it begins anew in each",
                         "say how it saves its work (checkpoint in the job file), --window-end finish, or "
                         "--time of at most " +
                             text(length_of(window))};
  command.ask.window = std::move(window);
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

// Better said now than not done.
std::optional<wire::Problem> unhonoured(const wire::JobSpec& spec) {
  if (!spec.file_mounts.empty())
    return wire::Problem{"file_mounts",
                         "files are not fetched from other places",
                         "upload a directory (workdir) or use a volume: tranche volume create"};
  for (const wire::VolumeMount& volume : spec.volumes)
    if (!wire::may_be_covered(volume.path))
      return wire::Problem{
          "volumes", "a volume cannot be shown at " + volume.path, std::string(wire::kCoverable)};
  if (spec.checkpoint && !spec.checkpoint->path.empty() && !wire::may_be_covered(spec.checkpoint->path))
    return wire::Problem{"checkpoint.path",
                         "checkpoints cannot be shown at " + spec.checkpoint->path,
                         std::string(wire::kCoverable)};
  if (spec.schedule)
    return wire::Problem{"schedule",
                         "a job by the calendar is made by its submitter",
                         "tranche run --every \"weekdays 22:00\" -f job.yaml"};
  if (spec.burst == wire::Burst::kOnly)
    return wire::Problem{"burst", "no provider of bought capacity is set up", "never, or auto"};
  if (!spec.infra.empty() && spec.infra != "local" && spec.infra != "simulated")
    return wire::Problem{"infra",
                         "there is no '" + spec.infra + "' here: capacity is that of connected nodes",
                         "local, or simulated"};
  return std::nullopt;
}

Result<Submission, wire::Problem> read_submission(Api& api, wire::JobSpec spec) {
  const auto catalogue = api.catalogue();
  if (const auto wrong = unhonoured(spec)) return refuse(*wrong);
  const bool simulated = spec.infra == "simulated";
  const std::int64_t largest = simulated ? catalogue->largest_simulated_vram : catalogue->largest_vram;
  auto sizing = server::size_job(spec, largest == 0 ? std::numeric_limits<std::int64_t>::max() : largest);
  if (!sizing) return refuse(sizing.error());
  const auto ask = wire::resolve_ask(spec, catalogue->skus, catalogue->settings, catalogue->smallest_vram);
  if (!ask) return refuse(ask.error());
  const wire::TextMap secrets = spec.secrets;
  for (const auto& [name, secret] : secrets) spec.secrets.set(name, api.sealer().seal(secret));
  engine::SubmitJob command{.owner = {}, .name = spec.name, .ask = *ask, .spec = wire::to_json(spec)};
  if (const auto wrong = take_units(spec, command)) return refuse(*wrong);
  if (const auto wrong = take_window(spec, command)) return refuse(*wrong);
  if (const auto wrong = take_after(spec, command)) return refuse(*wrong);
  return Submission{std::move(command), std::move(*sizing)};
}

}  // namespace tranche::api
