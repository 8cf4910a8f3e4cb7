// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.hpp"

#include "base/text.hpp"
#include "cli/environment.hpp"
#include "cli/failure.hpp"
#include "cli/human.hpp"
#include "wire/gpu_request.hpp"
#include "wire/nearest.hpp"
#include "wire/sbatch.hpp"
#include "wire/text_form.hpp"

namespace tranche::cli {
namespace {

using wire::JobSpec;

// The three lines of the parser: the string, a caret below the mistake, what would be legal.
Failure gpu_failure(const std::string& request, const wire::GpuProblem& problem) {
  std::vector<std::string> lines;
  const std::string text = wire::caret_text(request, problem);
  for (std::size_t at = 0; at < text.size() && lines.size() < 3;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  // What comes first stands behind "tranche: ", so the caret line is moved by the difference to its indent.
  if (lines.size() > 1 && lines[1].find('^') != std::string::npos) lines[1].insert(0, 7, ' ');
  return {kUsage, std::move(lines)};
}

template <class T>
T value_of(const char* flag, const std::string& given) {
  auto parsed = wire::TextForm<T>::parse(given);
  if (!parsed) throw usage_failure(std::string(flag) + " " + parsed.error() + "; it was '" + given + "'");
  return std::move(*parsed);
}

template <wire::DescribedEnum E>
E name_of_flag(const char* flag, const std::string& given) {
  if (const auto value = wire::from_name<E>(given)) return *value;
  std::vector<std::string_view> known;
  std::string list;
  for (const auto& name : wire::detail::EnumTable<E>::kNames) {
    known.push_back(name.view());
    list += (list.empty() ? "" : ", ") + std::string(name.view());
  }
  throw usage_failure(std::string(flag) + " takes one of " + list + ", not '" + given + "'",
                      wire::nearest_hint(given, known));
}

void set_pairs(const char* flag, const std::vector<std::string>& pairs, wire::TextMap& map) {
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw usage_failure(std::string(flag) + " takes KEY=VALUE, not '" + pair + "'");
    }
    map.set(pair.substr(0, equals), pair.substr(equals + 1));
  }
}

// The value is not an argument, for arguments are seen by every process of this machine.
void set_secrets(const std::vector<std::string>& names, wire::TextMap& secrets) {
  constexpr const char* kInstead = "for example: export HF_TOKEN=..., then --secret HF_TOKEN";
  for (const std::string& name : names) {
    if (name.find('=') != std::string::npos)
      throw usage_failure("--secret takes a name alone; its value is that of your environment", kInstead);
    const auto value = environment_variable(name);
    if (!value) throw usage_failure("--secret: there is no '" + name + "' in your environment", kInstead);
    secrets.set(name, *value);
  }
}

void add_volumes(const std::vector<std::string>& wanted, std::vector<wire::VolumeMount>& volumes) {
  for (const std::string& volume : wanted) {
    auto mount = wire::Fields<wire::VolumeMount>::from_text(volume);
    if (!mount)
      throw usage_failure("--volume " + mount.error() + ", not '" + volume + "'",
                          "for example: --volume weights:/weights:ro; tranche volume list shows yours");
    volumes.push_back(std::move(*mount));
  }
}

// Words meant for a shell, and quoted for another: no program has such a name.
bool is_line_of_shell(const std::string& word) {
  const std::size_t blank = word.find_first_of(" \t\n");
  return blank != std::string::npos && word.find('/') > blank;
}

// The words after `--` as one line for a shell: what the person's own shell took apart is put together again.
std::string command_line(const std::vector<std::string>& words) {
  if (words.size() == 1 && is_line_of_shell(words.front()))
    throw usage_failure(
        "the command is one word, and no program has the name " + shell_quoted(words.front()),
        "without its quotes it is several; a line of shell: sh -c " + shell_quoted(words.front()));
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quoted(word);
  }
  return line;
}

void apply_resources(const RunOptions& options, JobSpec& job) {
  if (options.gpus) {
    auto gpus = wire::parse_gpu_request(*options.gpus);
    if (!gpus) throw gpu_failure(*options.gpus, gpus.error());
    job.resources.gpus = std::move(*gpus);
  }
  if (options.cpus) job.resources.cpus = value_of<wire::CpuRange>("--cpus", *options.cpus);
  if (options.workers) job.workers = value_of<wire::WorkerRange>("--workers", *options.workers);
  if (options.memory) job.resources.memory = value_of<wire::MemoryBounds>("--memory", *options.memory);
  if (options.isolation) {
    job.resources.isolation = name_of_flag<wire::Isolation>("--isolation", *options.isolation);
  }
}

void apply_units(const RunOptions& options, JobSpec& job) {
  if (options.frames) {
    job.units = std::map<std::string, wire::UnitRange>{{"frames", frames_of(*options.frames)}};
    if (options.command.empty() && job.run.empty()) return;
  }
  if (options.chunk && *options.chunk != "auto") {
    const auto size = wire::TextForm<wire::UnitRange>::parse(*options.chunk);
    if (!size || size->last < 1 || size->last > 10'000 || size->first != 1)
      throw usage_failure("--chunk takes auto or a number of frames up to 10000, not '" + *options.chunk +
                          "'");
    job.chunk = static_cast<std::uint32_t>(size->last);
  }
  if (options.retry) {
    auto retry = wire::Fields<wire::Retry>::from_text(*options.retry);
    if (!retry) throw usage_failure("--retry " + retry.error());
    job.retry = std::move(*retry);
  }
  if (options.deadline) job.deadline = parse_instant(*options.deadline);  // Else the server reads it.
  for (const std::string& one : options.after) job.after.push_back(one);
}

// What it does: the server finds the slice for it where none is asked for.
void apply_workload(const RunOptions& options, JobSpec& job) {
  wire::ModelUse model = job.model ? *job.model : wire::ModelUse{};
  if (apply_model(options.size, model)) {
    if (model.name.empty() && model.config.empty() && model.parameters == 0)
      throw usage_failure("flags of a model need the model: --model 13b, or --model-config FILE");
    job.model = std::move(model);
  }
  wire::MediaUse media = job.media ? *job.media : wire::MediaUse{};
  if (apply_media(options.size, media)) job.media = std::move(media);
}

// "22:00-06:00"
void apply_window(const RunOptions& options, JobSpec& job) {
  if (options.cheapest) job.cheapest = true;
  if (options.window) {
    const auto dash = options.window->find('-');
    if (dash == std::string::npos)
      throw usage_failure("--window takes two times of day, not '" + *options.window + "'",
                          "for example: --window 22:00-06:00 --tz Europe/Madrid");
    job.window =
        wire::JobWindow{.start = options.window->substr(0, dash), .end = options.window->substr(dash + 1)};
  }
  if (!job.window) {
    if (options.window_end)
      throw usage_failure("--window-end says what happens at the end of --window: give both");
    return;
  }
  if (options.zone) job.window->tz = *options.zone;
  if (options.window_end)
    job.window->at_end = name_of_flag<wire::WindowEnd>("--window-end", *options.window_end);
}

// What stands for a number or a piece needs one; elsewhere the command would get it as it is written.
void check_placeholders(const RunOptions& options, const JobSpec& job) {
  const auto names = [&](const char* word) { return job.run.find(word) != std::string::npos; };
  if (options.frames && !names("{frame"))
    throw usage_failure("--frames needs {frame} in the command, so that each run knows its own",
                        "for example: tranche run --frames 1-240 -- ./render.sh {frame}");
  if (job.units) return;
  if (job.kind == wire::WorkloadKind::kRender && (names("{frame}") || names("{frame:")))
    throw usage_failure("the command names {frame}, and nothing says which frames there are",
                        "give --frames 1-240, or units: {frames: 1..240} in the job file");
}

}  // namespace

JobSpec job_of(const RunOptions& options, const std::optional<std::string>& file_text) {
  return read_job(options, file_text).job;
}

JobRead read_job(const RunOptions& options, const std::optional<std::string>& file_text) {
  JobRead read;
  JobSpec& job = read.job;
  const bool batch = file_text && wire::is_batch_script(*file_text);
  if (batch) {
    auto script = wire::read_batch_script(*file_text, options.command);
    if (!script) {
      throw usage_failure((options.file == "-" ? "stdin" : options.file) + ": " + wire::text(script.error()),
                          "nothing was submitted; docs/job-file.md lists what is honoured");
    }
    job = std::move(script->job);
    read.notes = std::move(script->notes);
  } else if (file_text) {
    auto parsed = wire::parse_job_file(*file_text);
    if (!parsed) {
      throw usage_failure((options.file == "-" ? "stdin" : options.file) + ": " + wire::text(parsed.error()),
                          "nothing was submitted");
    }
    job = std::move(*parsed);
  }
  apply_resources(options, job);
  if (options.name) job.name = *options.name;
  if (options.kind) job.kind = name_of_flag<wire::WorkloadKind>("--kind", *options.kind);
  if (options.time) job.limits.time = value_of<Duration>("--time", *options.time);
  if (options.spend) job.limits.spend = value_of<Money>("--spend", *options.spend);
  if (options.priority) job.priority = value_of<wire::Priority>("--priority", *options.priority);
  if (options.sku) job.sku = *options.sku;
  if (options.image) job.image = *options.image;
  if (options.workdir) job.workdir = *options.workdir;
  apply_workload(options, job);
  if (options.infra) job.infra = *options.infra;
  if (options.preemptible) job.preemptible = true;
  apply_units(options, job);
  apply_window(options, job);
  set_pairs("--label", options.labels, job.labels);
  set_pairs("--env", options.envs, job.envs);
  set_secrets(options.secrets, job.secrets);
  add_volumes(options.volumes, job.volumes);
  if (options.setup) job.setup = *options.setup;
  if (options.network) job.network = name_of_flag<wire::Network>("--network", *options.network);
  if (!options.command.empty() && !batch) job.run = command_line(options.command);
  check_placeholders(options, job);
  if (job.run.empty() && job.image.empty() && job.kind != wire::WorkloadKind::kInteractive) {
    throw usage_failure("there is nothing to run",
                        "give a command after --, an image with one, or a job file: tranche run -f job.yaml");
  }
  if (const auto problem = wire::Fields<JobSpec>::check(job)) {
    throw usage_failure(wire::text(*problem), "nothing was submitted");
  }
  return read;
}

}  // namespace tranche::cli
