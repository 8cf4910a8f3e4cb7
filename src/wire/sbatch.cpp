// SPDX-License-Identifier: Apache-2.0
#include "wire/sbatch.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "wire/sbatch_options.hpp"

namespace tranche::wire {
namespace {

using sbatch::Option;
using sbatch::wrong;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value < 0)
    return std::nullopt;
  return value;
}

// minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS
std::optional<Duration> slurm_time(std::string_view text) {
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto given = whole(text.substr(0, dash));
    if (!given) return std::nullopt;
    days = *given;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    const auto part = whole(text.substr(at, end - at));
    if (!part || *part > 1'000'000'000) return std::nullopt;
    parts.push_back(*part);
    at = end + 1;
  }
  if (parts.size() > 3 || days > 10'000) return std::nullopt;
  using namespace std::chrono;
  Duration sum = hours(24 * days);
  if (dash != std::string_view::npos) {
    parts.resize(3, 0);
  } else if (parts.size() == 1) {
    parts = {0, parts[0], 0};
  } else if (parts.size() == 2) {
    parts = {0, parts[0], parts[1]};
  }
  return sum + hours(parts[0]) + minutes(parts[1]) + seconds(parts[2]);
}

// Megabytes, or with K, M, G or T; Slurm counts in powers of two.
std::optional<Bytes> slurm_memory(std::string_view text) {
  std::int64_t unit = 1 << 20;
  if (!text.empty()) {
    const std::string_view letters = "KMGT";
    const char last = static_cast<char>(text.back() & ~0x20);
    if (const std::size_t at = letters.find(last); at != std::string_view::npos) {
      unit = std::int64_t{1} << (10 * (at + 1));
      text.remove_suffix(1);
    }
  }
  const auto count = whole(text);
  if (!count || *count == 0 || *count > (std::int64_t{1} << 50) / unit) return std::nullopt;
  return Bytes{*count * unit};
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string quoted(std::string_view word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The script as one text for /bin/sh: as it is, or from a file for its own interpreter.
std::string run_text(std::string_view script,
                     const std::string& interpreter,
                     const std::vector<std::string>& arguments) {
  const bool plain = interpreter.empty() || interpreter == "/bin/sh" || interpreter == "/usr/bin/sh";
  if (plain && arguments.empty()) return std::string(script);
  std::string mark = "END_OF_SCRIPT";
  while (script.find(mark) != std::string_view::npos) mark += "_";
  std::string out = "cat > \"${TMPDIR:-/tmp}/script\" <<'" + mark + "'\n" + std::string(script);
  if (out.back() != '\n') out += '\n';
  out += mark + "\nexec " + (plain ? "/bin/sh" : interpreter) + " \"${TMPDIR:-/tmp}/script\"";
  for (const std::string& argument : arguments) out += ' ' + quoted(argument);
  return out + "\n";
}

class Reader {
 public:
  using Done = std::optional<Problem>;

  Done take(const Option& o) {
    const std::string& name = o.name;
    if (name == "job-name") return set(script_.job.name, o.value);
    if (name == "chdir") return set(script_.job.workdir, o.value);
    if (name == "gres" || name.starts_with("gpus")) return take_gpus(o);
    if (name == "time") return take_time(o);
    if (name == "mem" || name == "mem-per-cpu") return take_memory(o);
    if (name == "nodes") return take_nodes(o);
    if (name == "cpus-per-task") return take_count(o, cpus_);
    if (name == "ntasks") return take_count(o, tasks_);
    if (name == "ntasks-per-node") return take_count(o, tasks_per_node_);
    if (name == "output" || name == "error") {
      note("--" + name + ": what the job prints is kept by the server; see: tranche logs JOB");
      return {};
    }
    if (name == "export") return take_export(o);
    if (name == "array") return take_array(o);
    if (name == "dependency") return take_dependency(o);
    if (name == "signal") return take_signal(o);
    if (name == "exclusive") {
      script_.job.resources.whole_node = true;
      script_.job.resources.isolation = Isolation::kDedicated;
      return {};
    }
    if (name == "reservation") {
      script_.job.labels.set("booking", o.value);
      return {};
    }
    return {};  // requeue: that is how it is.
  }

  Done finish() {
    JobSpec& job = script_.job;
    const std::int64_t nodes = job.num_nodes;
    if (tasks_per_node_.value_or(1) != 1 || (tasks_ && *tasks_ != 1 && *tasks_ != nodes)) {
      return Problem{.path = "--ntasks",
                     .message = "cannot be honoured: the script runs once on each node",
                     .hint = "start the processes from the script",
                     .line = 0};
    }
    if (cpus_) {
      const auto milli = static_cast<std::uint32_t>(*cpus_ * 1000);
      job.resources.cpus = {milli, milli};
      job.envs.set("SLURM_CPUS_PER_TASK", std::to_string(*cpus_));
    }
    if (memory_per_cpu_) job.resources.memory.min = {memory_per_cpu_->count * cpus_.value_or(1)};
    if (!gpus_.empty()) {
      if (per_node_ && nodes > 1) scale_by(nodes);
      auto request = parse_gpu_request(gpus_);
      if (!request)
        return wrong(gpus_option_, "'" + gpus_ + "': " + request.error().message, request.error().nearest);
      job.resources.gpus = std::move(*request);
    }
    if (!job.name.empty()) job.envs.set("SLURM_JOB_NAME", job.name);
    job.envs.set("SLURM_JOB_NUM_NODES", std::to_string(nodes));
    return {};
  }

  BatchScript& script() { return script_; }
  void note(std::string text) { script_.notes.push_back(std::move(text)); }

 private:
  static Done set(std::string& field, const std::string& value) {
    field = value;
    return {};
  }

  static Done take_count(const Option& o, std::optional<std::int64_t>& count) {
    count = whole(o.value);
    if (!count || *count == 0 || *count > 100'000)
      return wrong(o, "takes a number above zero, not '" + o.value + "'");
    return {};
  }

  // gpu:2, gpu:h100:2, h100:2 or 2; each is also a GPU string here.
  Done take_gpus(const Option& o) {
    if (!gpus_.empty()) return wrong(o, "devices are asked for twice", "keep one of --gres and --gpus");
    std::string_view value = o.value;
    if (o.name == "gres") {
      if (value != "gpu" && !value.starts_with("gpu:"))
        return wrong(o,
                     "'" + o.value + "' cannot be honoured",
                     "only gpu[:TYPE][:COUNT]; for a part of a device: --gpus 0.5");
      value.remove_prefix(std::min<std::size_t>(value.size(), 4));
    }
    if (value.find(',') != std::string_view::npos)
      return wrong(o, "several kinds at once cannot be honoured", "ask for one kind of device");
    if (value.empty()) value = "1";
    gpus_ = whole(value) ? "gpu:" + std::string(value) : std::string(value);
    per_node_ = o.name != "gpus";
    gpus_option_ = o;
    return {};
  }

  // Counts of Slurm are for a node; ours are for the job.
  void scale_by(std::int64_t nodes) {
    const std::size_t colon = gpus_.rfind(':');
    const auto count =
        colon == std::string::npos ? std::nullopt : whole(std::string_view(gpus_).substr(colon + 1));
    gpus_ = (count ? gpus_.substr(0, colon) : gpus_) + ":" + std::to_string(count.value_or(1) * nodes);
  }

  Done take_time(const Option& o) {
    if (o.value == "UNLIMITED" || o.value == "INFINITE" || o.value == "0") return {};
    const auto time = slurm_time(o.value);
    if (!time)
      return wrong(o, "'" + o.value + "' is no time", "minutes, MM:SS, HH:MM:SS, D-HH or D-HH:MM:SS");
    script_.job.limits.time = *time;
    return {};
  }

  Done take_memory(const Option& o) {
    const auto memory = slurm_memory(o.value);
    if (!memory)
      return wrong(o, "'" + o.value + "' is no size above zero", "32G, 4000M, or a number of megabytes");
    if (o.name == "mem") {
      script_.job.resources.memory.min = *memory;
    } else {
      memory_per_cpu_ = *memory;
    }
    return {};
  }

  Done take_nodes(const Option& o) {
    std::string_view value = o.value;
    const std::size_t dash = value.find('-');
    if (dash != std::string_view::npos && value.substr(0, dash) == value.substr(dash + 1))
      value = value.substr(0, dash);
    const auto nodes = whole(value);
    if (!nodes || *nodes == 0 || *nodes > 10'000)
      return wrong(o, "'" + o.value + "' cannot be honoured", "one number of nodes");
    script_.job.num_nodes = static_cast<std::uint32_t>(*nodes);
    if (*nodes > 1) note("--nodes: the script runs on every node; $RANK tells them apart");
    return {};
  }

  Done take_export(const Option& o) {
    for (const std::string& part : parts_of(o.value, ',')) {
      const std::size_t equals = part.find('=');
      if (equals != std::string::npos && equals > 0) {
        script_.job.envs.set(part.substr(0, equals), part.substr(equals + 1));
      } else if (part != "NONE" && part != "NIL") {
        note("--export=" + part + ": your environment is not sent along; give what is needed with --env");
      }
    }
    return {};
  }

  // 7, 1-10 or 1-10%4: every index is a unit of the job, with a verdict of its own.
  Done take_array(const Option& o) {
    const std::size_t percent = std::min(o.value.find('%'), o.value.size());
    const std::vector<std::string> ends = parts_of(std::string_view(o.value).substr(0, percent), '-');
    const auto first = whole(ends.front()), last = whole(ends.back());
    if (ends.size() > 2 || !first || !last || *last < *first)
      return wrong(o, "'" + o.value + "' cannot be honoured", "one index or one range without steps: 1-10");
    if (percent < o.value.size())
      note("--array: how many of them run at once follows from your quota and from what is free, not from " +
           o.value.substr(percent));
    JobSpec& job = script_.job;
    const UnitRange range{.first = *first, .last = *last};
    job.units = std::map<std::string, UnitRange>{{"units", range}};
    job.retry = Retry{};  // Slurm does not run again what ended badly.
    job.envs.set("SLURM_ARRAY_TASK_MIN", ends.front());
    job.envs.set("SLURM_ARRAY_TASK_MAX", ends.back());
    job.envs.set("SLURM_ARRAY_TASK_COUNT", std::to_string(range.count()));
    return {};
  }

  // afterok:JOB[:JOB], afterany:JOB; all of them must be fulfilled.
  Done take_dependency(const Option& o) {
    for (const std::string& part : parts_of(o.value, ',')) {
      const std::vector<std::string> words = parts_of(part, ':');
      const bool is_any = words.front() == "afterany";
      const bool is_other = part.find_first_of("?+") != std::string::npos;  // Any of them, or after a while.
      if ((!is_any && words.front() != "afterok") || words.size() < 2 || is_other)
        return wrong(o, "'" + part + "' cannot be honoured", "afterok:JOB or afterany:JOB");
      for (std::size_t i = 1; i < words.size(); ++i)
        script_.job.after.push_back(words[i] + (is_any ? ":any" : ""));
    }
    return {};
  }

  // [B:]SIG[@seconds]
  Done take_signal(const Option& o) {
    std::string value = o.value;
    if (value.starts_with("B:")) value.erase(0, 2);
    Checkpoint checkpoint;
    checkpoint.grace = std::chrono::seconds(60);
    if (const std::size_t at = value.find('@'); at != std::string::npos) {
      const auto seconds = whole(std::string_view(value).substr(at + 1));
      if (!seconds || *seconds > 65'535)
        return wrong(o, "'" + o.value + "' is no signal and time", "USR1@120");
      checkpoint.grace = std::chrono::seconds(*seconds);
      value.resize(at);
    }
    if (value.empty() || whole(value)) return wrong(o, "takes the name of a signal", "USR1@120");
    checkpoint.signal = value.starts_with("SIG") ? value : "SIG" + value;
    script_.job.checkpoint = checkpoint;
    return {};
  }

  BatchScript script_;
  std::string gpus_;
  Option gpus_option_;
  bool per_node_ = false;
  std::optional<std::int64_t> cpus_, tasks_, tasks_per_node_;
  std::optional<Bytes> memory_per_cpu_;
};

}  // namespace

bool is_batch_script(std::string_view text) {
  return !sbatch::head_of(text).lines.empty();
}

Result<BatchScript, Problem> read_batch_script(std::string_view text,
                                               const std::vector<std::string>& arguments) {
  const sbatch::Head head = sbatch::head_of(text);
  const auto options = sbatch::options_of(head);
  if (!options) return refuse(options.error());
  Reader reader;
  for (const Option& option : *options)
    if (auto problem = reader.take(option)) return refuse(std::move(*problem));
  if (auto problem = reader.finish()) return refuse(std::move(*problem));
  for (const std::uint32_t line : head.ignored)
    reader.note("line " + std::to_string(line) +
                ": #SBATCH below the first command is ignored, as Slurm does");
  JobSpec& job = reader.script().job;
  job.run = run_text(text, head.interpreter, arguments);
  if (job.units) job.run.insert(0, "export SLURM_ARRAY_TASK_ID={unit}\n");
  return std::move(reader.script());
}

}  // namespace tranche::wire
