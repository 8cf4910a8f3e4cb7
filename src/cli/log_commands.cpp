// SPDX-License-Identifier: Apache-2.0
// logs, wait: what a job says, and how it ends.
#include <algorithm>
#include <thread>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "wire/api_job.hpp"
#include "wire/api_telemetry.hpp"

namespace tranche::cli {
namespace {

using wire::is_over;
using wire::JobDetail;
using namespace std::chrono_literals;

// Asks often at first, and less and less often while nothing changes.
class Patience {
 public:
  void changed() { wait_ = kShortest; }
  void wait() {
    std::this_thread::sleep_for(wait_);
    wait_ = std::min(wait_ * 3 / 2, kLongest);
  }

 private:
  static constexpr std::chrono::milliseconds kShortest = 50ms;
  static constexpr std::chrono::milliseconds kLongest = 1s;
  std::chrono::milliseconds wait_ = kShortest;
};

int exit_code_of(const JobDetail& detail) {
  if (detail.job.state == wire::JobState::kSucceeded) return kOk;
  if (detail.job.state == wire::JobState::kStopped) return kJobStopped;
  if (detail.exit_signal != 0) return 128 + detail.exit_signal;
  return detail.exit_code != 0 ? detail.exit_code : static_cast<int>(kJobFailed);
}

struct LogOptions {
  std::string job{}, stream = "stdout", search{};
  bool follow = false;
  std::uint32_t attempt = 0, rank = 0;
};

std::string new_words(Session& session, const LogOptions& options, std::uint64_t from) {
  std::string path = "/v1/jobs/" + path_segment(options.job) +
                     "/logs?stream=" + path_segment(options.stream) + "&from=" + std::to_string(from) +
                     "&rank=" + std::to_string(options.rank);
  if (options.attempt != 0) path += "&attempt=" + std::to_string(options.attempt);
  return session.call({.path = path}).body;
}

std::uint64_t print_new(Session& session, const LogOptions& options, std::uint64_t from) {
  const std::string words = new_words(session, options, from);
  write_stdout(words);
  return from + words.size();
}

// Of a job that wrote nothing on stdout.
void say_where_else(Session& session, const LogOptions& options) {
  const JobDetail detail = session.get<JobDetail>("/v1/jobs/" + path_segment(options.job)).value;
  if (!detail.chunks.empty()) {
    const bool failed = detail.progress && !detail.progress->failures.empty();
    const JobId chunk = failed ? detail.progress->failures.front().job : detail.chunks.back();
    return session.say(options.job + " is done in chunks, which have logs of their own: tranche logs " +
                       text(chunk));
  }
  LogOptions other = options;
  other.stream = "stderr";
  if (!new_words(session, other, 0).empty())
    session.say("nothing on stdout; what it wrote on stderr: tranche logs " + options.job +
                " --stream stderr");
}

void show_logs(Session& session, const LogOptions& options) {
  std::uint64_t at = print_new(session, options, 0);
  Patience patience;
  std::uint32_t attempt = 0;
  while (options.follow) {
    const auto detail = session.get<JobDetail>("/v1/jobs/" + path_segment(options.job));
    const bool over = is_over(detail.value.job.state);
    if (attempt != 0 && detail.value.attempts != attempt && options.attempt == 0) at = 0;
    attempt = detail.value.attempts;
    const std::uint64_t now = print_new(session, options, at);
    if (now != at) patience.changed();
    at = now;
    if (over) break;
    patience.wait();
  }
  if (at == 0 && options.stream == "stdout") say_where_else(session, options);
}

void search_logs(Session& session, const LogOptions& options) {
  const auto answer =
      session.get<wire::LogMatches>("/v1/logs?limit=1000&text=" + path_segment(options.search));
  session.print(answer.body, {.table = [&] {
                  Table table({{"JOB"}, {"STREAM"}, {"LINE"}});
                  for (const wire::LogMatch& match : answer.value.items)
                    if (options.job.empty() || options.job == text(match.job))
                      table.add({text(match.job), match.stream, match.line});
                  return table;
                }});
  if (answer.value.more) session.say("there is more; only the first 1000 lines are shown");
}

void add_logs(const Command& root, Program& program) {
  const auto options = std::make_shared<LogOptions>();
  const Command& command =
      add_command(root,
                  {"logs",
                   "What a job wrote, and with -f what it writes",
                   "tranche logs job_00007K\ntranche logs -f job_00007K --stream stderr\n"
                   "tranche logs --search 'out of memory'"});
  command.add_option("job", options->job, "Id, as `ps` shows it; with --search all of yours");
  command.add_option("--search", options->search, "Lines with this text, in logs of all jobs you may see")
      .type_name("TEXT");
  command.add_flag("-f,--follow", options->follow, "Stay until the job ends");
  command.add_option("--stream", options->stream, "stdout, stderr, platform or results").type_name("STREAM");
  command.add_option("--attempt", options->attempt, "Which attempt; else the last").type_name("NUMBER");
  command.add_option("--rank", options->rank, "Which member of a gang").type_name("NUMBER");
  command.callback([options, &program] {
    if (!options->search.empty()) return search_logs(program.session(), *options);
    if (options->job.empty())
      throw usage_failure("which job?", "tranche logs JOB, or tranche logs --search TEXT");
    show_logs(program.session(), *options);
  });
}

void add_wait(const Command& root, Program& program) {
  struct Options {
    std::string job{}, timeout{};
  };
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(root,
                                       {"wait",
                                        "Wait for a job; the exit code is the job's",
                                        "tranche wait job_00007K\ntranche wait job_00007K --timeout 10m"});
  command.add_option("job", options->job, "Id, as `ps` shows it").required();
  command.add_option("--timeout", options->timeout, "Give up after this long (exit code 124)")
      .type_name("DURATION");
  command.callback([options, &program] {
    Session& session = program.session();
    Duration limit{};
    if (!options->timeout.empty()) {
      const auto parsed = parse_duration(options->timeout);
      if (!parsed) throw usage_failure("--timeout takes a duration such as 10m");
      limit = *parsed;
    }
    const auto began = std::chrono::steady_clock::now();
    Patience patience;
    for (;;) {
      const auto detail = session.get<JobDetail>("/v1/jobs/" + path_segment(options->job));
      // One that is held waits for a person, which a script cannot be.
      if (is_over(detail.value.job.state) || detail.value.job.state == wire::JobState::kHeld) {
        session.say(text(detail.value.job.id) + " " + std::string(wire::name_of(detail.value.job.state)) +
                    (detail.value.job.reason.empty() ? "" : ": " + detail.value.job.reason));
        if (const int code = exit_code_of(detail.value); code != kOk)
          throw quiet_end(static_cast<Exit>(code));
        return;
      }
      if (limit > Duration{} && std::chrono::steady_clock::now() - began > limit) {
        session.say(text(detail.value.job.id) + " is still " +
                    std::string(wire::name_of(detail.value.job.state)) + " after " + text(limit) +
                    (detail.value.job.reason.empty() ? "" : ": " + detail.value.job.reason));
        throw quiet_end(kTimedOut);
      }
      patience.wait();
    }
  });
}

}  // namespace

void add_log_commands(const Command& root, Program& program) {
  add_logs(root, program);
  add_wait(root, program);
}

}  // namespace tranche::cli
