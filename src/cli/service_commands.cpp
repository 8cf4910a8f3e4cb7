// SPDX-License-Identifier: Apache-2.0
// serve, service: what answers requests, and how it is doing.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/price_plan.hpp"
#include "cli/terminal.hpp"
#include "cli/workdir_upload.hpp"
#include "wire/service.hpp"

namespace tranche::cli {
namespace {

using wire::ServiceList;
using wire::ServiceView;

Table service_table(const std::vector<ServiceView>& services) {
  Table table({{"SERVICE"},
               {"OWNER"},
               {"READY", Align::kRight},
               {"QUEUED", Align::kRight},
               {"REQUESTS", Align::kRight},
               {"FAILED", Align::kRight},
               {"TOKENS", Align::kRight},
               {"URL"},
               {"STATUS"}});
  for (const ServiceView& one : services)
    table.add({one.name,
               one.owner,
               std::to_string(one.ready) + "/" + std::to_string(one.replicas),
               std::to_string(one.queued),
               std::to_string(one.requests),
               std::to_string(one.failed),
               std::to_string(one.tokens_in + one.tokens_out),
               one.url,
               one.status});
  return table;
}

std::string percent(std::uint32_t per_mille) {
  return std::to_string(per_mille / 10) + "." + std::to_string(per_mille % 10) + " %";
}

std::string service_text(const ServiceView& service) {
  std::string out;
  const auto line = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) out.append(what).append(12 - what.size(), ' ').append(value).append("\n");
  };
  line("service", service.name);
  line("owner", service.owner);
  line("url", service.url);
  line("ready", std::to_string(service.ready) + " of " + std::to_string(service.replicas));
  line("queued", std::to_string(service.queued));
  line("requests", std::to_string(service.requests) + ", " + std::to_string(service.failed) + " failed");
  if (service.tokens_in + service.tokens_out > 0)
    line("tokens", std::to_string(service.tokens_in) + " in, " + std::to_string(service.tokens_out) + " out");
  if (const auto& latency = service.latency) {
    line("latency",
         "p50 " + text(latency->p50) + ", p99 " + text(latency->p99) + " over " +
             std::to_string(latency->requests) + " requests of the last minute; longest wait in line " +
             text(latency->waited));
    if (latency->objective)
      line("objective",
           "p99 within " + text(*latency->objective) + "; " +
               percent(latency->attained_per_mille.value_or(0)) + " of the requests were");
  }
  line("status", service.status);
  for (const wire::ReplicaView& copy : service.copies)
    line("replica",
         text(copy.job) + " " + copy.version + " " + std::string(wire::name_of(copy.state)) + ", " +
             std::to_string(copy.active) + " active" + (copy.address.empty() ? "" : " " + copy.address));
  return out;
}

std::string service_names(const std::vector<ServiceView>& services) {
  std::string names;
  for (const ServiceView& one : services) names += one.name + "\n";
  return names;
}

void print_one(Session& session, const Answer<ServiceView>& answer) {
  const std::vector<ServiceView> one{answer.value};
  session.print(answer.body,
                {.table = [&] { return service_table(one); },
                 .text = [&] { return service_text(answer.value); },
                 .names = [&] { return service_names(one); }});
}

// Nothing is uploaded for a question.
void ask_price(Session& session, wire::ServiceSpec service, const std::string& owner) {
  for (wire::ServiceVersion& version : service.versions) version.job.workdir.clear();
  const std::string path =
      "/v1/services?dry_run=true" + (owner.empty() ? "" : "&owner=" + path_segment(owner));
  show_price_plan(
      session, session.ask<wire::PricePlan>({.method = "PUT", .path = path, .body = wire::to_json(service)}));
}

void add_serve(const Command& root, Program& program) {
  struct Options {
    std::string file{}, owner{};
    bool dry_run = false;
  };
  const auto options = std::make_shared<Options>();
  const Command& command =
      add_command(root,
                  {"serve",
                   "Set up a service, or change it without dropping a request",
                   "tranche serve -f service.yaml\ntranche serve -f service.yaml --owner acme/ana\n"
                   "tranche serve -f service.yaml --dry-run"});
  command.add_option("-f,--file", options->file, "Service file in YAML or JSON; '-' is stdin")
      .type_name("FILE")
      .required();
  command.add_option("--owner", options->owner, "For this party; else --subscriber, else yourself")
      .type_name("PARTY");
  command.add_flag(
      "--dry-run", options->dry_run, "Say whether it would be let in and what it costs; set up nothing");
  command.callback([options, &program] {
    Session& session = program.session();
    auto service = wire::parse_service_file(read_file_or_stdin(options->file));
    if (!service)
      throw usage_failure(options->file + ": " + wire::text(service.error()), "nothing was changed");
    const std::string owner = options->owner.empty() ? session.target().subscriber : options->owner;
    const std::string path = owner.empty() ? "/v1/services" : "/v1/services?owner=" + path_segment(owner);
    if (options->dry_run) return ask_price(session, *service, owner);
    for (wire::ServiceVersion& version : service->versions)
      if (!version.job.workdir.empty())
        version.job.workdir = upload_workdir(session, version.job.workdir, owner);
    print_one(session,
              session.ask<ServiceView>({.method = "PUT", .path = path, .body = wire::to_json(*service)}));
  });
}

void add_list(const Command& group, Program& program) {
  const Command& command = add_command(group, {"list", "List services", "tranche service list -o json"});
  command.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<ServiceList>("/v1/services");
    session.print(answer.body,
                  {.table = [&] { return service_table(answer.value.items); },
                   .names = [&] { return service_names(answer.value.items); }});
  });
}

void add_show(const Command& group, Program& program) {
  const auto name = std::make_shared<std::string>();
  const Command& command =
      add_command(group, {"show", "One service and its replicas", "tranche service show chat"});
  command.add_option("service", *name, "Its name").required();
  command.callback([name, &program] {
    print_one(program.session(), program.session().get<ServiceView>("/v1/services/" + path_segment(*name)));
  });
}

void add_remove(const Command& group, Program& program) {
  const auto name = std::make_shared<std::string>();
  const Command& command =
      add_command(group, {"rm", "End a service and its replicas", "tranche service rm chat"});
  command.add_option("service", *name, "Its name").required();
  command.callback([name, &program] {
    program.session().call({.method = "DELETE", .path = "/v1/services/" + path_segment(*name)});
    program.session().say("service " + *name + " has ended");
  });
}

}  // namespace

void add_service_commands(const Command& root, Program& program) {
  add_serve(root, program);
  const Command& group =
      add_group(root, {"service", "Services that answer requests", "tranche service list"});
  add_list(group, program);
  add_show(group, program);
  add_remove(group, program);
}

}  // namespace tranche::cli
