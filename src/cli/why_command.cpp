// SPDX-License-Identifier: Apache-2.0
// why: the one main reason a job waits, when it will start, and what would start it sooner.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "wire/why.hpp"

namespace tranche::cli {
namespace {

using wire::Why;

std::string words(wire::WaitReason reason) {
  std::string name(wire::name_of(reason));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void append_line(std::string& out, std::string_view what, const std::string& value) {
  out.append("  ").append(what).append(what.size() < 8 ? 8 - what.size() : 1, ' ').append(value).append("\n");
}

std::string starts_text(const wire::WhyStarts& starts) {
  std::string out =
      "about " + local_time_text(starts.p50) + "; 9 of 10 times before " + local_time_text(starts.p90);
  if (starts.error_median) {
    out += "; last " + std::to_string(starts.predictions) + " predictions off by " +
           text(*starts.error_median) + " median";
  }
  return out;
}

std::string text_of(const Why& why) {
  std::string out = text(why.job) + " is " + why.state + ": " +
                    (why.message.empty() ? words(why.reason) : why.message) + "\n";
  if (why.refusal) append_line(out, "rule", why.refusal->message);
  if (why.starts) append_line(out, "starts", starts_text(*why.starts));
  if (why.ahead_count > 0) {
    std::string ahead = std::to_string(why.ahead_count) + (why.ahead_count == 1 ? " job" : " jobs");
    for (std::size_t i = 0; i < why.ahead.size(); ++i) {
      const wire::WhyAhead& one = why.ahead[i];
      const std::string who = one.party.empty()  ? "somebody else's"
                              : one.name.empty() ? one.party + "'s " + text(one.job)
                                                 : one.party + "/" + one.name;
      ahead += (i == 0 ? " (" : ", ") + who + (one.gpu_milli == 0 ? "" : " " + gpus_text(one.gpu_milli));
    }
    append_line(out, "ahead", ahead + (why.ahead.empty() ? "" : ")"));
  }
  for (std::size_t i = 0; i < why.sooner.size(); ++i) {
    const wire::WhySooner& way = why.sooner[i];
    std::string line =
        way.change + ": " + (way.starts_in.count() == 0 ? "now" : "in " + age_text(way.starts_in));
    if (way.extra_cost) line += ", +" + text(*way.extra_cost);
    append_line(out, i == 0 ? "sooner" : "", line);
  }
  std::string not_cause;
  for (const wire::WaitReason reason : why.not_the_cause)
    not_cause += (not_cause.empty() ? "" : ", ") + words(reason);
  if (!not_cause.empty()) out += "  not the cause: " + not_cause + "\n";
  return out;
}

}  // namespace

void add_why_command(const Command& root, Program& program) {
  const auto job = std::make_shared<std::string>();
  const Command& command =
      add_command(root, {"why", "Why a job waits, and what would help", "tranche why job_00007K"});
  command.add_option("job", *job, "Id, as `ps` shows it").required();
  command.callback([job, &program] {
    Session& session = program.session();
    const auto answer = session.get<Why>("/v1/jobs/" + path_segment(*job) + "/why");
    const Why& why = answer.value;
    const auto table = [&] {
      Table rows({{"JOB"}, {"STATE"}, {"REASON"}, {"MESSAGE"}});
      rows.add({text(why.job), why.state, wire::name_of(why.reason), why.message});
      return rows;
    };
    session.print(answer.body,
                  {.table = table,
                   .text = [&] { return text_of(why); },
                   .names = [&] { return std::string(wire::name_of(why.reason)) + "\n"; }});
  });
}

}  // namespace tranche::cli
