// SPDX-License-Identifier: Apache-2.0
#include "cli/job_table.hpp"

#include "base/text.hpp"
#include "cli/human.hpp"
#include "cli/session.hpp"
#include "wire/fields.hpp"
#include "wire/json_items.hpp"

namespace tranche::cli {

using wire::JobView;

JobTable::JobTable(Instant now, Show most)
    : now_(now),
      most_(most),
      table_({{"JOB"},
              {"NAME"},
              {"OWNER"},
              {"STATE"},
              {"KIND"},
              {"GPUS"},
              {"PRIO", Align::kRight},
              {"AGE", Align::kRight},
              {"NODE"},
              {"REASON"},
              {"PROGRESS", Align::kLeft, Show::kWide},
              {"ADMISSION", Align::kLeft, Show::kWide},
              {"SUBMITTED", Align::kLeft, Show::kWide},
              {"ENDED", Align::kLeft, Show::kWide}}) {}

void JobTable::add(const JobView& job) {
  const bool wide = most_ == Show::kWide;  // Nobody sees these otherwise: do not write them.
  table_.add({text(job.id),
              job.name,
              job.owner,
              wire::name_of(job.state),
              wire::name_of(job.kind),
              job.gpus.empty() ? std::string_view("-") : std::string_view(job.gpus),
              std::to_string(job.priority),
              age_text(now_ - job.submitted),
              job.simulated ? "SIM " + job.node : job.node,
              job.reason,
              wide ? std::string_view(job.progress) : std::string_view(),
              wide ? wire::name_of(job.admission) : std::string_view(),
              wide ? text(job.submitted) : std::string(),
              wide && job.ended ? text(*job.ended) : std::string()});
}

void JobTable::add_page(std::string_view body, std::size_t most) {
  if (table_.empty()) table_.reserve(std::min(most, body.size() / 200), 110);
  const auto rest = wire::each_item(body, "items", [&](std::string_view item) {
    if (most-- == 0) return false;
    add(Session::parsed<JobView>(item));
    return true;
  });
  if (!rest) throw Session::unreadable(rest.error());
}

Table job_table(const std::vector<JobView>& jobs, Instant now) {
  JobTable table(now, Show::kWide);
  for (const JobView& job : jobs) table.add(job);
  return table.take();
}

std::string job_names(const std::vector<JobView>& jobs) {
  std::string names;
  for (const JobView& job : jobs) {
    names += text(job.id);
    names += '\n';
  }
  return names;
}

namespace {

// 0.25 frames/s, or seconds a frame where that is the larger number.
std::string rate_text(const wire::ProgressView& progress) {
  const std::string unit(wire::name_of(progress.unit));
  const auto decimal = [](std::int64_t milli) {
    std::string digits = std::to_string(milli % 1000);
    digits.insert(0, 3 - digits.size(), '0');
    return std::to_string(milli / 1000) + "." + digits.substr(0, 2);
  };
  if (progress.rate_milli >= 1000) return decimal(progress.rate_milli) + " " + unit + "s/s";
  return decimal(1'000'000 / progress.rate_milli) + " s/" + unit;
}

// Of a clip that was cut in pieces: how much of it is done, and how fast against watching it.
std::string footage_text(const wire::ProgressView& progress) {
  if (progress.pieces == 0) return {};
  const auto seconds = [](std::int64_t count) { return text(Duration(std::chrono::seconds(count))); };
  std::string out = seconds(progress.done) + " of " + seconds(progress.total) + ", " +
                    std::to_string(progress.pieces_done) + " of " + std::to_string(progress.pieces) +
                    " pieces";
  if (progress.rate_milli == 0) return out;
  const std::string digits = std::to_string(progress.rate_milli / 10 % 100);
  return out + ", " + std::to_string(progress.rate_milli / 1000) + "." + (digits.size() < 2 ? "0" : "") +
         digits + " times real time";
}

template <class Line>
void append_progress(const wire::ProgressView& progress, const std::string& summary, Line line) {
  line("progress",
       summary + (progress.running > 0 ? ", " + std::to_string(progress.running) + " running" : ""));
  if (progress.rate_milli > 0 && progress.pieces == 0) line("rate", rate_text(progress));
  if (const std::string footage = footage_text(progress); !footage.empty()) line("footage", footage);
  if (progress.cost_each != Money{})
    line("cost each", text(progress.cost_each) + " for a " + std::string(wire::name_of(progress.unit)));
  line("metrics", progress.metrics);
  if (progress.chunks > 0) line("chunks", std::to_string(progress.chunks));
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < progress.failures.size() && i < kShown; ++i) {
    const wire::UnitFailureView& one = progress.failures[i];
    line(i == 0 ? "failures" : "",
         (progress.pieces > 0 ? "piece" : std::string(wire::name_of(progress.unit))) + " " +
             std::to_string(one.unit) + ": exit " + std::to_string(one.exit_code) + ", " +
             std::to_string(one.tries) + (one.tries == 1 ? " try" : " tries") +
             (one.given_up ? ", given up" : ", is tried again") + " (" + text(one.job) + ")");
  }
  if (progress.failures.size() > kShown)
    line("", "and " + std::to_string(progress.failures.size() - kShown) + " more");
}

// Of what took seconds nobody reads the microseconds.
std::string measured_text(Duration length) {
  using namespace std::chrono;
  return text(length < seconds(10) ? Duration(floor<milliseconds>(length))
                                   : Duration(floor<seconds>(length)));
}

std::string checkpoint_text(const wire::CheckpointNote& note) {
  const std::string far = note.unit == wire::WorkUnit::kNone ? ""
                                                             : std::string(wire::name_of(note.unit)) + " " +
                                                                   std::to_string(note.done) + ", ";
  return note.name + " (" + far + text(Bytes{note.bytes}) + ", " + local_time_text(note.at) + ")";
}

// With what the work so far lets one expect.
std::string deadline_text(const wire::JobDetail& detail, Instant now) {
  if (!detail.ask.deadline) return {};
  std::string out = local_time_text(*detail.ask.deadline);
  if (is_over(detail.job.state) || !detail.progress || !detail.progress->left) return out;
  const Instant end = now + *detail.progress->left;
  const auto away = std::chrono::ceil<std::chrono::minutes>(
      end > *detail.ask.deadline ? end - *detail.ask.deadline : *detail.ask.deadline - end);
  return out + ", expected " + local_time_text(end) + ": " + text(Duration(away)) +
         (end > *detail.ask.deadline ? " late" : " to spare");
}

// What cut attempts short, and whose doing it was.
template <class Line>
void append_interruptions(const wire::JobDetail& detail, const Line& line) {
  for (const wire::Interruption& one : detail.interruptions) {
    std::string words = local_time_text(one.at) + " by " + one.whose + ": " +
                        (one.message.empty() ? std::string(wire::name_of(one.reason)) : one.message) +
                        " (attempt " + std::to_string(one.attempt) + " on " + one.node;
    if (one.fault != Instant{}) words += ", not charged since " + local_time_text(one.fault);
    line("interrupted", words + ")");
  }
}

}  // namespace

std::string job_detail_text(const wire::JobDetail& detail, Instant now) {
  const JobView& job = detail.job;
  std::string out;
  const auto line = [&](std::string_view what, std::string_view value) {
    if (value.empty()) return;
    out.append(what).append(what.size() < 12 ? 12 - what.size() : 1, ' ').append(value).append("\n");
  };
  line("job", text(job.id));
  line("name", job.name);
  line("owner", job.owner);
  line("state", std::string(wire::name_of(job.state)) + (job.reason.empty() ? "" : ": " + job.reason));
  line("kind", wire::name_of(job.kind));
  line("gpus", job.gpus);
  std::string resolved;
  if (detail.ask.instances > 0) {
    resolved = std::to_string(detail.ask.instances) + " x " + gpus_text(detail.ask.milli_each) + " GPU, " +
               bytes_text(detail.ask.vram_each) + " each, " +
               std::string(wire::name_of(detail.ask.isolation));
  }
  line("resolved", resolved);
  if (detail.ask.is_elastic())
    line("workers",
         std::to_string(detail.ask.nodes) + " of " + std::to_string(detail.ask.nodes_min) + ".." +
             std::to_string(detail.ask.nodes_max));
  if (detail.ask.range)
    line("slice",
         "between " + gpus_text(detail.ask.range->milli_min) + " GPU, " +
             text(Bytes{detail.ask.range->vram_min}) + " and " + gpus_text(detail.ask.range->milli_max) +
             " GPU, " + text(Bytes{detail.ask.range->vram_max}));
  line("priority", std::to_string(job.priority));
  line("time limit", detail.ask.time.count() == 0 ? "" : text(detail.ask.time));
  line("window", detail.ask.window ? wire::text(*detail.ask.window) : "");
  line("deadline", deadline_text(detail, now));
  line("admission", job.admission == wire::Admission::kOnDemand ? "on demand" : "within quota");
  line("hold", detail.hold == Money{} ? "" : text(detail.hold));
  line("cost", detail.charged == Money{} && detail.held == Money{} ? "" : text(detail.charged));
  line("credited", detail.credited == Money{} ? "" : text(detail.credited));
  line("set aside", detail.held == Money{} ? "" : text(detail.held));
  std::string labels;
  for (const auto& [key, value] : detail.ask.labels) {
    if (!labels.empty()) labels += ", ";
    labels += key;
    labels += '=';
    labels += value;
  }
  line("labels", labels);
  line("submitted", local_time_text(job.submitted) + " (" + age_text(now - job.submitted) + " ago)");
  line("started", job.started ? local_time_text(*job.started) : "");
  line("ended", job.ended ? local_time_text(*job.ended) : "");
  if (is_over(job.state) && detail.attempts > 0)
    line("exit",
         detail.exit_signal != 0 ? "signal " + std::to_string(detail.exit_signal)
                                 : std::to_string(detail.exit_code));
  line("message", detail.message);
  std::string after;
  for (const std::string& one : detail.after) after += (after.empty() ? "" : ", ") + one;
  line("waits for", after);
  if (detail.progress) append_progress(*detail.progress, job.progress, line);
  if (!detail.checkpoints.empty()) line("checkpoint", checkpoint_text(detail.checkpoints.back()));
  if (detail.attempts > 1) line("attempts", std::to_string(detail.attempts));
  append_interruptions(detail, line);
  for (const wire::LeaseView& lease : detail.leases) {
    std::string where = (lease.simulated ? "SIMULATED node " : "node ") + lease.node;
    for (const wire::SliceView& slice : lease.slices)
      where += ", " + (slice.model.empty() ? slice.uuid : slice.model) + " " + gpus_text(slice.milli) +
               " GPU " + bytes_text(slice.vram.count);
    line(lease.rank == 0 ? "runs on" : "", where + " (" + std::string(wire::name_of(lease.state)) + ")");
    for (const wire::SliceView& slice : lease.slices)
      if (slice.state != wire::DeviceState::kHealthy && !wire::is_over(lease.state))
        line("device", slice.health);
    if (lease.becomes_milli) line("becomes", gpus_text(*lease.becomes_milli) + " GPU");
    if (lease.paused_since)
      line("paused",
           "for " + age_text(now - *lease.paused_since) + ": others have its place; tranche why " +
               text(job.id));
    if (lease.paused_for > Duration{}) line("was paused", "for " + age_text(lease.paused_for) + " before");
    if (lease.device_nanoseconds > 0)
      line("device time", measured_text(Duration{lease.device_nanoseconds / 1000}));
  }
  return out;
}

}  // namespace tranche::cli
