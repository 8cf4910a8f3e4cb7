// SPDX-License-Identifier: Apache-2.0
// results: what the units of a job made, gathered from all of its chunks.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sys/wait.h>

#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "cli/video_input.hpp"
#include "wire/api_job.hpp"

namespace tranche::cli {
namespace {

using wire::JobDetail;

struct Options {
  std::string job{}, folder = ".", join{};
  bool list = false;
};

// tar is on every machine that has a shell; it is fed, and what it says goes to the terminal.
class Unpacker {
 public:
  explicit Unpacker(const Options& options) {
    std::string command = "tar --ignore-zeros --no-same-owner ";
    command += options.list ? "-tf - | grep -v '/$'" : "-xf - -C " + shell_quoted(options.folder);
    pipe_ = ::popen(command.c_str(), "w");
    if (pipe_ == nullptr) throw Failure(kOther, {"tar could not be started"});
  }
  ~Unpacker() {
    if (pipe_ != nullptr) ::pclose(pipe_);
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
  void feed(const std::string& bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), pipe_) != bytes.size())
      throw Failure(kOther, {"the results could not be unpacked"});
  }
  void finish() {
    const int status = ::pclose(std::exchange(pipe_, nullptr));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      throw Failure(kOther, {"some results could not be unpacked"});
  }

 private:
  FILE* pipe_ = nullptr;
};

void fetch(Session& session,
           const std::string& job,
           std::uint32_t attempt,
           const Options& options,
           std::optional<Unpacker>& unpacker) {
  std::uint64_t at = 0;
  for (;;) {
    const net::Response answer = session.call({.path = "/v1/jobs/" + path_segment(job) +
                                                       "/logs?stream=results&from=" + std::to_string(at) +
                                                       "&attempt=" + std::to_string(attempt)});
    if (answer.body.empty()) return;
    if (!unpacker) unpacker.emplace(options);  // Of nothing tar would say that it is no archive.
    unpacker->feed(answer.body);
    at += answer.body.size();
  }
}

bool gather(Session& session, const Options& options) {
  const auto detail = session.get<JobDetail>("/v1/jobs/" + path_segment(options.job));
  if (!options.list) std::filesystem::create_directories(options.folder);
  std::vector<std::string> jobs;
  for (const JobId chunk : detail.value.chunks) jobs.push_back(text(chunk));
  if (jobs.empty()) jobs.push_back(options.job);
  std::optional<Unpacker> unpacker;
  for (const std::string& job : jobs) {
    const auto chunk = session.get<JobDetail>("/v1/jobs/" + path_segment(job));
    for (std::uint32_t attempt = 1; attempt <= chunk.value.attempts; ++attempt)
      fetch(session, job, attempt, options, unpacker);
  }
  if (unpacker) unpacker->finish();
  return unpacker.has_value();
}

constexpr const char* kNothing = "no results: a command leaves them in the folder $TRANCHE_OUTPUT";

}  // namespace

void add_results_command(const Command& root, Program& program) {
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(root,
                                       {"results",
                                        "Fetch what the frames of a job left in $TRANCHE_OUTPUT",
                                        "tranche results job_00007K -d frames/\n"
                                        "tranche results job_00007K --list\n"
                                        "tranche results job_00007K --join out.mp4"});
  command.add_option("job", options->job, "Id, as `ps` shows it").required();
  command.add_option("-d,--directory", options->folder, "Where they go").type_name("DIR");
  command.add_flag("--list", options->list, "Only say what there is");
  command.add_option("--join", options->join, "Join the pieces of a clip into this file").type_name("FILE");
  command.callback([options, &program] {
    if (options->join.empty()) {
      if (!gather(program.session(), *options)) program.session().say(kNothing);
      return;
    }
    const ScratchFolder pieces;
    options->folder = pieces.path().string();
    if (!gather(program.session(), *options)) throw Failure(kOther, {kNothing});
    join_video(pieces.path(), options->join);
    program.session().say("wrote " + options->join);
  });
}

}  // namespace tranche::cli
