// SPDX-License-Identifier: Apache-2.0
// run: submit a job, or with --dry-run ask what would become of it.
#include <filesystem>
#include <thread>

#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/job_table.hpp"
#include "cli/price_plan.hpp"
#include "cli/recurring.hpp"
#include "cli/run_options.hpp"
#include "cli/sizing_text.hpp"
#include "cli/terminal.hpp"
#include "cli/video_input.hpp"
#include "cli/workdir_upload.hpp"
#include "wire/api_job.hpp"
#include "wire/sbatch.hpp"

namespace tranche::cli {
namespace {

using wire::JobDetail;
using wire::JobPlan;
using wire::JobView;
using Clock = std::chrono::steady_clock;

struct Options {
  RunOptions job{};
  std::string owner{};
  bool dry_run = false;
  std::vector<std::string> wait{};  // Empty text: for ever.
  std::string every{}, until{};
  VideoOptions video{};
};

// What so many units took and cost before.
std::string units_text(const wire::UnitEstimate& units, const std::string& currency) {
  std::string out = units.unit + std::string(units.unit.size() < 12 ? 12 - units.unit.size() : 1, ' ') +
                    std::to_string(units.count);
  if (units.each > Duration{})
    out += ", " + text(units.each) +
           " each: " + text(Duration(std::chrono::ceil<std::chrono::seconds>(units.one_by_one))) +
           " on one slice";
  if (units.cost) out += ", about " + text(*units.cost) + " " + currency;
  return out + " (by " + units.by + ", " + std::to_string(units.seen) + " " + units.unit + ")\n";
}

std::string plan_text(const JobPlan& plan) {
  std::string out = plan.admitted ? "admitted    yes" : "admitted    no";
  if (plan.admitted) out += plan.admission == wire::Admission::kOnDemand ? ", on demand" : ", within quota";
  out += "\n";
  const auto& ask = plan.ask;
  if (ask.instances > 0) {
    out += "resolved    " + std::to_string(ask.instances) + " x " + gpus_text(ask.milli_each) + " GPU, " +
           bytes_text(ask.vram_each) + " each, " + std::string(wire::name_of(ask.isolation)) + "\n";
  }
  if (plan.sizing) out += "\n" + sizing_text(*plan.sizing) + "\n";
  if (plan.sizing)
    for (const std::string& note : plan.sizing->notes) out += note + "\n";
  if (plan.sizing) out += "\n";
  if (plan.starts) out += "starts      not before " + local_time_text(*plan.starts) + "\n";
  if (ask.time.count() > 0) out += "time limit  " + text(ask.time) + "\n";
  if (plan.hold != Money{}) out += "hold        " + text(plan.hold) + "\n";
  if (plan.units) out += units_text(*plan.units, plan.price.currency);
  return out + price_text(plan.price);
}

void show_plan(Session& session, const Answer<JobPlan>& answer) {
  const JobPlan& plan = answer.value;
  const auto table = [&] {
    Table rows({{"ADMITTED"},
                {"ADMISSION"},
                {"GPUS", Align::kRight},
                {"VRAM", Align::kRight},
                {"HOLD", Align::kRight},
                {"PRICE/H", Align::kRight},
                {"AT MOST", Align::kRight}});
    rows.add({plan.admitted ? "yes" : "no",
              wire::name_of(plan.admission),
              gpus_text(plan.ask.gpu_milli()),
              text(Bytes{plan.ask.vram_bytes()}),
              text(plan.hold),
              text(plan.price.hourly),
              plan.price.most ? text(*plan.price.most) : "-"});
    return rows;
  };
  session.print(answer.body,
                {.table = table,
                 .text = [&] { return plan_text(plan); },
                 .names = [&] { return std::string(plan.admitted ? "admitted\n" : "refused\n"); }});
  if (plan.refusal) throw refused_plan(*plan.refusal);
}

Exit end_code(const JobView& job) {
  switch (job.state) {
    case wire::JobState::kSucceeded:
      return kOk;
    case wire::JobState::kStopped:
      return kJobStopped;
    default:
      return kJobFailed;
  }
}

// Asks more rarely the longer it takes: a job of hours is not worth a request a second.
Answer<JobDetail> wait_for_end(Session& session, const std::string& job, Clock::time_point until) {
  auto pause = std::chrono::milliseconds(100);
  std::string told;
  for (;;) {
    auto answer = session.get<JobDetail>("/v1/jobs/" + path_segment(job), Explain::kPreparation);
    const JobView& seen = answer.value.job;
    // One that is held waits for a person, which a script cannot be.
    if (wire::is_over(seen.state) || seen.state == wire::JobState::kHeld) return answer;
    const std::string state =
        std::string(wire::name_of(seen.state)) + (seen.reason.empty() ? "" : ": " + seen.reason);
    if (state != told) session.say(job + " is " + state);
    told = state;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) {
      throw Failure(kTimedOut,
                    {job + " has not ended: it is " + state, "it goes on; see: tranche show " + job});
    }
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(pause * 3 / 2, std::chrono::milliseconds(2000));
  }
}

void wait_and_end(Session& session, const std::string& job, const std::string& patience) {
  Clock::time_point until = Clock::time_point::max();
  if (!patience.empty()) until = Clock::now() + *parse_duration(patience);
  const auto last = wait_for_end(session, job, until);
  session.say(job + " " + std::string(wire::name_of(last.value.job.state)) +
              (last.value.job.reason.empty() ? "" : ": " + last.value.job.reason));
  if (const Exit code = end_code(last.value.job); code != kOk) throw quiet_end(code);
}

// A job file that stands where the command would: nobody means to execute one.
bool is_job_file(const RunOptions& options) {
  const std::string ending = std::filesystem::path(options.command.front()).extension();
  return options.command.size() == 1 && (ending == ".yaml" || ending == ".yml" || ending == ".json");
}

// `tranche run train.sh`, `tranche run task.yaml`: a script with lines for Slurm, or a job file, is read, not
// only run.
void take_script(RunOptions& options, std::optional<std::string>& file) {
  if (!options.file.empty() || options.command.empty()) return;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.command.front(), ignored)) return;
  std::string text = read_file_or_stdin(options.command.front());
  if (!wire::is_batch_script(text) && !is_job_file(options)) return;
  options.file = options.command.front();
  options.command.erase(options.command.begin());
  file = std::move(text);
}

// Set up to run again and again, instead of once.
void run_again_and_again(Session& session,
                         const Options& options,
                         const std::string& owner,
                         wire::JobSpec job) {
  if (job.name.empty())
    throw usage_failure("a job that runs again and again needs a name", "give --name nightly");
  wire::RecurringSpec spec{.name = job.name,
                           .every = options.every,
                           .zone = options.job.zone.value_or(""),
                           .until = options.until,
                           .job = std::move(job)};
  const std::string path = owner.empty() ? "/v1/recurring" : "/v1/recurring?owner=" + path_segment(owner);
  const auto answer =
      session.ask<wire::RecurringView>({.method = "PUT", .path = path, .body = wire::to_json(spec)});
  print_recurring(session, answer.body, {answer.value});
}

void run(Session& session, Options options) {
  std::optional<std::string> file;
  if (!options.job.file.empty()) file = read_file_or_stdin(options.job.file);
  take_script(options.job, file);
  JobRead read = read_job(options.job, file);
  wire::JobSpec& job = read.job;
  for (const std::string& note : read.notes) session.say(note);
  const bool is_local = options.job.deadline && !job.deadline;
  if (options.job.zone && options.every.empty() && !job.window && !is_local)
    throw usage_failure("--tz is the zone of --every, --window or --deadline 08:00: give one of them");
  if (is_local && !options.every.empty())
    throw usage_failure("a job that runs again and again has no deadline");
  if (options.dry_run && !options.every.empty())
    throw usage_failure("--dry-run says what would become of one run", "leave --every out");
  const std::string patience = options.wait.empty() ? "" : options.wait.front();
  if (!patience.empty() && !parse_duration(patience)) {
    throw usage_failure("--wait takes a duration such as 10m, not '" + patience + "'");
  }
  const std::vector<std::string>& words = options.job.command;
  if (!options.wait.empty() && patience.empty() && !words.empty() && parse_duration(words.front())) {
    throw usage_failure("the duration of --wait stands behind '='", "write --wait=" + words.front());
  }
  std::string path = "/v1/jobs";
  char separator = '?';
  const auto add = [&](const std::string& parameter) {
    path += separator + parameter;
    separator = '&';
  };
  const std::string owner = options.owner.empty() ? session.target().subscriber : options.owner;
  if (options.dry_run) add("dry_run=true");
  if (!owner.empty()) add("owner=" + path_segment(owner));
  if (is_local) {
    add("deadline=" + path_segment(*options.job.deadline));
    if (options.job.zone) add("zone=" + path_segment(*options.job.zone));
  }
  std::optional<ScratchFolder> pieces;
  if (options.video.input.empty())
    need_no_clip(job);
  else
    cut_video(options.video, pieces.emplace().path(), job);
  if (!job.workdir.empty() && !options.dry_run) job.workdir = upload_workdir(session, job.workdir, owner);
  if (options.dry_run && !job.workdir.starts_with("sha256:") && !job.workdir.empty()) {
    static_cast<void>(pack_folder(job.workdir));  // Whether it could be sent.
    job.workdir.clear();
  }
  if (!options.every.empty()) return run_again_and_again(session, options, owner, std::move(job));
  const Call submit{.method = "POST", .path = path, .body = wire::to_json(job)};
  if (options.dry_run) return show_plan(session, session.ask<JobPlan>(submit));

  const auto answer = session.ask<JobView>(submit);
  const std::vector<JobView> one{answer.value};
  const std::string id = text(answer.value.id);
  session.print(
      answer.body,
      {.table = [&] { return job_table(one, wall_clock()); }, .names = [&] { return job_names(one); }});
  if (!options.wait.empty()) return wait_and_end(session, id, patience);
  const std::string& reason = answer.value.reason;
  if (reason.empty()) return;
  const bool says_where = reason.find("see: tranche ") != std::string::npos;
  session.say(id + " is " + std::string(wire::name_of(answer.value.state)) + ": " + reason +
              (says_where ? "" : "; see: tranche why " + id));
}

void add_job_options(const Command& command, RunOptions& job) {
  command.add_option("--gpus", job.gpus, "H100:0.5, 10GB, A100-80GB:2, [L4, A100], ...").type_name("GPUS");
  command.add_option("--name", job.name, "For people").type_name("NAME");
  command.add_option("--kind", job.kind, "batch, inference, finetune, training, render, video or interactive")
      .type_name("KIND");
  command.add_option("--time", job.time, "Time limit, such as 30m or 8h").type_name("DURATION");
  command.add_option("--priority", job.priority, "0 to 100, or idle, low, normal, high, critical")
      .type_name("N");
  command.add_option("--isolation", job.isolation, "dedicated, hard or soft").type_name("CLASS");
  command.add_option("--sku", job.sku, "A shape the operator defined, instead of --gpus").type_name("NAME");
  command.add_option("--spend", job.spend, "The most it may cost").type_name("AMOUNT");
  command.add_option("--cpus", job.cpus, "4, 4+ or 4..8").type_name("COUNT");
  command.add_option("--workers", job.workers, "Members of a gang: 4, or 2..8 as many as there is room for")
      .type_name("COUNT");
  command.add_option("--memory", job.memory, "32GB, 32+ or 16GB..64GB").type_name("SIZE");
  command.add_option("--image", job.image, "Container image").type_name("IMAGE");
  command.add_option("--workdir", job.workdir, "Directory to upload; the job starts in a copy of it")
      .type_name("DIR");
  command.add_option("--infra", job.infra, "local, or simulated: nothing executes on simulated devices")
      .type_name("WHERE");
  command.add_option("--label", job.labels, "KEY=VALUE; may be repeated").type_name("LABEL").repeatable();
  command.add_option("--env", job.envs, "KEY=VALUE; may be repeated").type_name("VARIABLE").repeatable();
  command
      .add_option("--secret",
                  job.secrets,
                  "Variable of your environment, sealed, and seen by the job alone; may be repeated")
      .type_name("NAME")
      .repeatable();
  command.add_option("--volume", job.volumes, "NAME:/PATH or NAME:/PATH:ro; may be repeated")
      .type_name("VOLUME")
      .repeatable();
  command.add_option("--setup", job.setup, "Runs first; if it fails, the command does not run")
      .type_name("COMMAND");
  command.add_option("--network", job.network, "none (default), gang or internet: what the job may reach")
      .type_name("WHAT");
  command.add_option("--frames", job.frames, "1-240: one run of the command for each, {frame} in it")
      .type_name("RANGE");
  command.add_option("--chunk", job.chunk, "Frames that one lease works through: auto, or a number")
      .type_name("COUNT");
  command.add_option("--retry", job.retry, "Times to try again: the job, or each frame (2 unless said)")
      .type_name("COUNT");
  command
      .add_option(
          "--deadline",
          job.deadline,
          "Should have ended by then: 08:00 (the next; see --tz), \"fri 18:00\", 2026-11-16T08:00:00+01:00")
      .type_name("TIME");
  command
      .add_option(
          "--window", job.window, "Starts only in these hours of the day, such as 22:00-06:00; see --tz")
      .type_name("HOURS");
  command
      .add_option(
          "--window-end", job.window_end, "At their end: finish what runs (default), or stop until the next")
      .type_name("WHAT");
  command.add_flag("--cheapest", job.cheapest, "Starts when it costs least; needs --deadline and --time");
  command.add_option("--after", job.after, "JOB, JOB:ok or JOB:any: start when it has ended; may be repeated")
      .type_name("JOB")
      .repeatable();
  command.add_flag("--preemptible", job.preemptible, "May be stopped for others: starts sooner");
}

void add_submit_options(const Command& command, const std::shared_ptr<Options>& options, Program& program) {
  add_job_options(command, options->job);
  add_model_options(command, options->job.size);
  add_media_options(command, options->job.size);
  command.add_option("--owner", options->owner, "Submit for this party; else --subscriber, else yourself")
      .type_name("PARTY");
  const Option input = command.add_option(
      "--input", options->video.input, "Clip: cut, worked on in pieces, joined by `results --join`");
  input.type_name("FILE");
  command.add_option("--segment", options->video.segment, "Length of a piece: 10s, or with --by frames 250")
      .type_name("LENGTH")
      .capture_default_str()
      .needs(input);
  command.add_option("--by", options->video.by, "What --segment counts: seconds or frames")
      .type_name("UNIT")
      .capture_default_str()
      .needs(input);
  const Option every = command.add_option(
      "--every", options->every, "Again and again: \"weekdays 22:00\", \"day 03:30\", \"mon,thu 06:00\"");
  every.type_name("WHEN");
  command.add_option("--tz", options->job.zone, "Zone of --every (else the owner's) and --window (else UTC)")
      .type_name("ZONE");
  command.add_option("--until", options->until, "Last date of --every; else it goes on for ever")
      .type_name("DATE")
      .needs(every);
  command.add_flag("--dry-run", options->dry_run, "Say what would become of it; submit nothing");
  command
      .add_option("--wait",
                  options->wait,
                  "Stay until it ends, with --wait=2h at most so long; exit code as the job ended")
      .expected(0, 1);
  command.callback([options, &program] {
    if (options->wait == std::vector<std::string>{"true"}) options->wait = {""};  // Given without a value.
    run(program.session(), *options);
  });
}

void add_sbatch_command(const Command& root, Program& program) {
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(root,
                                       {"sbatch",
                                        "Submit a batch script of Slurm, by its #SBATCH lines",
                                        "tranche sbatch train.sh\n"
                                        "tranche sbatch --dry-run train.sh\n"
                                        "tranche sbatch --time 2h train.sh -- --epochs 3"});
  command.add_option("script", options->job.file, "Script; '-' is stdin. Flags go on top of its lines")
      .type_name("FILE")
      .required();
  add_submit_options(command, options, program);
  command.add_option("arguments", options->job.command, "Arguments of the script, after --");
}

}  // namespace

void add_run_command(const Command& root, Program& program) {
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(
      root,
      {"run",
       "Submit a job",
       "tranche run -f job.yaml\n"
       "tranche run --gpus 10GB --kind inference --time 30m -- ./serve --model 7b\n"
       "tranche run --gpus H100:0.5 --dry-run -- python train.py\n"
       "tranche run --kind inference --model 13b --precision fp16 --context 4k --users 8 -- ./serve\n"
       "tranche run --gpus H100 --wait=2h -- ./render.sh && echo done\n"
       "tranche run --kind render --frames 1-240 --gpus 10GB -- povray scene.ini +K{frame}\n"
       "tranche run --kind video --input clip.mp4 -- ffmpeg -i {input} -vf hflip {output}\n"
       "tranche run --after job_00007K -- ./publish.sh\n"
       "tranche run --window 22:00-06:00 --tz Europe/Madrid --window-end stop -- ./train.sh\n"
       "tranche run --cheapest --deadline 2026-11-20T08:00:00+01:00 --time 4h --gpus H100 -- ./train.sh\n"
       "tranche run --name nightly --every \"weekdays 22:00\" --tz Europe/Madrid -- ./train.sh"});
  command
      .add_option("-f,--file", options->job.file, "Job file in YAML or JSON; '-' is stdin. Flags go on top")
      .type_name("FILE");
  add_submit_options(command, options, program);
  command.add_option("command", options->job.command, "Command and its arguments, after --");
  add_sbatch_command(root, program);
}

}  // namespace tranche::cli
