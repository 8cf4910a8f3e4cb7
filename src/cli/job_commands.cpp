// SPDX-License-Identifier: Apache-2.0
// ps, show, stop, pause, resume, release: jobs after they were submitted.
#include <algorithm>
#include <future>

#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/job_table.hpp"
#include "cli/terminal.hpp"
#include "wire/api_job.hpp"
#include "wire/api_volume.hpp"

namespace tranche::cli {
namespace {

using wire::JobDetail;
using wire::JobList;
using wire::JobView;

struct ListOptions {
  std::string state{}, owner{};
  std::size_t limit = 0;
};

// Rows are made page by page; the other forms need all pages as one object.
void print_jobs(Session& session, const std::string& path, std::size_t most) {
  std::size_t count = 0;
  const bool rows_wanted = session.output() == Output::kTable || session.output() == Output::kWide;
  if (rows_wanted) {
    const Show show = session.output() == Output::kWide ? Show::kWide : Show::kAlways;
    JobTable table(wall_clock(), show);
    const auto fetch = [&](std::string_view cursor) {
      std::string page = cursor.empty() ? path : path + "&cursor=" + net::percent_encode(cursor);
      return std::async(std::launch::async,
                        [&session, page = std::move(page)] { return session.call({.path = page}); });
    };
    // The server makes the next page while this one becomes rows.
    std::future<net::Response> coming = fetch("");
    while (coming.valid()) {
      const net::Response page = coming.get();
      const std::string_view cursor = page.header("Next-Cursor");
      if (!cursor.empty() && table.rows() < most) coming = fetch(cursor);
      table.add_page(page.body, most - table.rows());
    }
    count = table.rows();
    write_stdout(table.take().text(show));
  } else {
    const auto answer = session.get_all<JobList>(path, most);
    count = answer.value.items.size();
    session.print(answer.body,
                  {.table = [&] { return job_table(answer.value.items, wall_clock()); },
                   .names = [&] { return job_names(answer.value.items); }});
  }
  if (count == 0) session.say("no jobs; submit one with: tranche run --gpus 10GB -- COMMAND");
}

void add_ps(const Command& root, Program& program) {
  const auto options = std::make_shared<ListOptions>();
  const Command& command = add_command(root,
                                       {"ps",
                                        "List jobs, oldest first",
                                        "tranche ps\n"
                                        "tranche ps --state pending --owner acme/research -o wide\n"
                                        "tranche stop $(tranche ps --state pending -o name)"});
  command
      .add_option("--state", options->state, "pending, running, paused, held, succeeded, failed or stopped")
      .type_name("STATE");
  command.add_option("--owner", options->owner, "Only jobs of this party and all below it; else --subscriber")
      .type_name("PARTY");
  command.add_option("--limit", options->limit, "At most so many").type_name("COUNT");
  command.callback([options, &program] {
    Session& session = program.session();
    constexpr std::size_t kPage = 2'500;
    const std::size_t most = options->limit == 0 ? SIZE_MAX : options->limit;
    std::string path = "/v1/jobs?limit=" + std::to_string(std::min(most, kPage));
    if (!options->state.empty()) {
      path += "&state=" + std::string(wire::name_of(enum_value<wire::JobState>("--state", options->state)));
    }
    const std::string owner = options->owner.empty() ? session.target().subscriber : options->owner;
    if (!owner.empty()) path += "&owner=" + path_segment(owner);
    print_jobs(session, path, most);
  });
}

void add_show(const Command& root, Program& program) {
  const auto job = std::make_shared<std::string>();
  const Command& command =
      add_command(root, {"show", "Show one job", "tranche show job_00007K\ntranche show job_00007K -o yaml"});
  command.add_option("job", *job, "Id, as `ps` shows it").required();
  command.callback([job, &program] {
    Session& session = program.session();
    const auto answer = session.get<JobDetail>("/v1/jobs/" + path_segment(*job));
    const std::vector<JobView> one{answer.value.job};
    session.print(answer.body,
                  {.table = [&] { return job_table(one, wall_clock()); },
                   .text = [&] { return job_detail_text(answer.value, wall_clock()); },
                   .names = [&] { return job_names(one); }});
  });
}

// What jobs have in volumes goes on to cost money when they are gone: said, so that nobody is surprised.
std::vector<wire::VolumeView> paid_volumes_of(Session& session, const std::vector<std::string>& jobs) {
  std::vector<wire::VolumeView> paid = session.get<wire::VolumeList>("/v1/volumes").value.items;
  std::erase_if(paid, [&](const wire::VolumeView& volume) {
    const bool used = std::any_of(volume.used_by.begin(), volume.used_by.end(), [&](JobId job) {
      return std::find(jobs.begin(), jobs.end(), text(job)) != jobs.end();
    });
    return !used || volume.hourly <= Money{};
  });
  return paid;
}

// The same for several: one that cannot be changed must not keep the others as they are.
struct Changed {
  JobList jobs{};
  std::unique_ptr<Failure> first{};
};
Changed change_jobs(Session& session, const std::vector<std::string>& jobs, const std::string& how) {
  Changed changed;
  for (const std::string& job : jobs) {
    try {
      changed.jobs.items.push_back(
          session.ask<JobView>({.method = "POST", .path = "/v1/jobs/" + path_segment(job) + how}).value);
    } catch (const Failure& failure) {
      if (failure.code() == kOk || failure.code() == kUnreachable || jobs.size() == 1) throw;
      write_stderr(failure.text());
      if (!changed.first) changed.first = std::make_unique<Failure>(quiet_end(failure.code()));
    }
  }
  session.print(wire::to_json(changed.jobs),
                {.table = [&] { return job_table(changed.jobs.items, wall_clock()); },
                 .names = [&] { return job_names(changed.jobs.items); }});
  return changed;
}

void say_volumes(Session& session, const std::vector<wire::VolumeView>& paid) {
  for (const wire::VolumeView& volume : paid)
    session.say("volume " + volume.name + " is kept, and costs " + text(volume.hourly) + " " +
                volume.currency + " an hour until: tranche volume rm " + volume.name);
}

void add_stop(const Command& root, Program& program) {
  const auto jobs = std::make_shared<std::vector<std::string>>();
  const Command& command = add_command(root, {"stop", "Stop jobs", "tranche stop job_00007K job_00007M"});
  command.add_option("job", *jobs, "Ids, as `ps` shows them").required();
  command.callback([jobs, &program] {
    Session& session = program.session();
    const std::vector<wire::VolumeView> paid = paid_volumes_of(session, *jobs);
    const Changed stopped = change_jobs(session, *jobs, "/stop");
    say_volumes(session, paid);
    if (stopped.first) throw Failure(*stopped.first);
  });
}

struct PauseOptions {
  std::vector<std::string> jobs{};
  bool from_start = false;
};

void add_pause(const Command& root, Program& program) {
  const auto options = std::make_shared<PauseOptions>();
  const Command& command = add_command(root,
                                       {"pause",
                                        "Put jobs aside: they save what they did and give back their devices",
                                        "tranche pause job_00007K\n"
                                        "tranche pause --from-start job_00007M\n"
                                        "tranche resume $(tranche ps --state paused -o name)"});
  command.add_option("job", options->jobs, "Ids, as `ps` shows them").required();
  command.add_flag("--from-start",
                   options->from_start,
                   "Also one that saves nothing: it begins again when it is taken up");
  command.callback([options, &program] {
    Session& session = program.session();
    const std::vector<wire::VolumeView> paid = paid_volumes_of(session, options->jobs);
    const Changed paused =
        change_jobs(session, options->jobs, options->from_start ? "/pause?from_start=true" : "/pause");
    session.say(
        "a paused job pays for no device and keeps its storage; take it up again with: tranche resume " +
        (paused.jobs.items.empty() ? std::string("JOB") : text(paused.jobs.items.front().id)));
    say_volumes(session, paid);
    if (paused.first) throw Failure(*paused.first);
  });
}

void add_resume(const Command& root, Program& program) {
  const auto jobs = std::make_shared<std::vector<std::string>>();
  const Command& command = add_command(root,
                                       {"resume",
                                        "Take paused jobs up again: they are admitted anew, and queue",
                                        "tranche resume job_00007K\n"
                                        "tranche resume $(tranche ps --state paused -o name)"});
  command.add_option("job", *jobs, "Ids; tranche ps --state paused lists them").required();
  command.callback([jobs, &program] {
    const Changed resumed = change_jobs(program.session(), *jobs, "/resume");
    if (resumed.first) throw Failure(*resumed.first);
  });
}

void add_release(const Command& root, Program& program) {
  const auto job = std::make_shared<std::string>();
  const Command& command = add_command(
      root, {"release", "Try a job again that the platform failed too often", "tranche release job_00007K"});
  command.add_option("job", *job, "Id; tranche ps --state held lists them").required();
  command.callback([job, &program] {
    Session& session = program.session();
    JobList released;
    released.items.push_back(
        session.ask<JobView>({.method = "POST", .path = "/v1/jobs/" + path_segment(*job) + "/release"})
            .value);
    session.print(wire::to_json(released.items.front()),
                  {.table = [&] { return job_table(released.items, wall_clock()); },
                   .names = [&] { return job_names(released.items); }});
  });
}

}  // namespace

void add_job_commands(const Command& root, Program& program) {
  add_ps(root, program);
  add_show(root, program);
  add_stop(root, program);
  add_pause(root, program);
  add_resume(root, program);
  add_release(root, program);
}

}  // namespace tranche::cli
