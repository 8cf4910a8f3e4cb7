// SPDX-License-Identifier: Apache-2.0
// shell: a terminal on a slice, gone when one leaves it.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/exec_session.hpp"
#include "cli/interactive_job.hpp"
#include "cli/run_options.hpp"
#include "cli/workdir_upload.hpp"

namespace tranche::cli {
namespace {

struct Options {
  RunOptions job{};
  std::string owner{};
  std::string time = "8h", idle = "30m";
  std::vector<std::string> command{};
};

Duration duration_of(const char* flag, const std::string& text) {
  const auto read = parse_duration(text);
  if (!read) throw usage_failure(std::string(flag) + " takes a duration such as 30m, not '" + text + "'");
  return *read;
}

void shell(Session& session, Options options) {
  options.job.kind = "interactive";
  options.job.time = options.time;
  InteractiveJob wish{.job = job_of(options.job, std::nullopt),
                      .owner = options.owner.empty() ? session.target().subscriber : options.owner,
                      .command = std::move(options.command),
                      .idle = duration_of("--idle", options.idle)};
  if (!wish.job.workdir.empty()) wish.job.workdir = upload_workdir(session, wish.job.workdir, wish.owner);
  end_with(run_interactively(session, std::move(wish), " is your shell; leaving it ends the job"));
}

}  // namespace

void add_shell_command(const Command& root, Program& program) {
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(root,
                                       {"shell",
                                        "A shell, or any command, on a slice of its own; ends with it",
                                        "tranche shell --gpus 10GB\n"
                                        "tranche shell --gpus H100:0.5 --workdir . --idle 1h -- python3\n"
                                        "tranche shell --volume weights:/w -- ls -l /w"});
  RunOptions& job = options->job;
  command.add_option("--gpus", job.gpus, "H100:0.5, 10GB, ...; without it: no device").type_name("GPUS");
  command.add_option("--sku", job.sku, "A shape the operator defined, instead of --gpus").type_name("NAME");
  command.add_option("--cpus", job.cpus, "4, 4+ or 4..8").type_name("COUNT");
  command.add_option("--memory", job.memory, "32GB, 32+ or 16GB..64GB").type_name("SIZE");
  command.add_option("--time", options->time, "The longest it may last")
      .type_name("DURATION")
      .capture_default_str();
  command.add_option("--idle", options->idle, "Ends after so long without a key or any output; 0s: never")
      .type_name("DURATION")
      .capture_default_str();
  command.add_option("--workdir", job.workdir, "Directory to upload; the shell starts in a copy of it")
      .type_name("DIR");
  command.add_option("--volume", job.volumes, "NAME:/PATH or NAME:/PATH:ro; may be repeated")
      .type_name("VOLUME")
      .repeatable();
  command.add_option("--owner", options->owner, "For this party; else --subscriber, else yourself")
      .type_name("PARTY");
  command.add_option("command", options->command, "Command and its arguments, after --; else a shell");
  command.callback([options, &program] { shell(program.session(), *options); });
}

}  // namespace tranche::cli
