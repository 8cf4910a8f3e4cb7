// SPDX-License-Identifier: Apache-2.0
// volume: storage that outlives jobs.
#include <thread>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/exec_session.hpp"
#include "cli/fleet_commands.hpp"
#include "cli/human.hpp"
#include "cli/interactive_job.hpp"
#include "cli/price_plan.hpp"
#include "wire/api_job.hpp"
#include "wire/api_volume.hpp"
#include "wire/job_spec.hpp"

namespace tranche::cli {
namespace {

using wire::VolumeList;
using wire::VolumeState;
using wire::VolumeView;

std::string path_of(const std::string& volume) {
  return "/v1/volumes/" + path_segment(volume);
}

std::string where(const VolumeView& volume) {
  if (volume.backend == wire::VolumeBackend::kShared) return volume.pool + " (shared)";
  return volume.node.empty() ? "(first use)" : volume.node;
}

std::string price_text(Money amount, const std::string& currency) {
  return amount == Money{} ? "free" : text(amount) + " " + currency;
}

Table table_of(const std::vector<VolumeView>& volumes) {
  Table table({{"NAME"},
               {"OWNER"},
               {"SIZE", Align::kRight},
               {"NODE"},
               {"STATE"},
               {"ENCRYPTED"},
               {"AN HOUR", Align::kRight},
               {"SO FAR", Align::kRight},
               {"USED BY"},
               {"ID", Align::kLeft, Show::kWide},
               {"CREATED", Align::kLeft, Show::kWide}});
  for (const VolumeView& volume : volumes) {
    std::string jobs;
    for (const JobId job : volume.used_by) jobs += (jobs.empty() ? "" : ",") + text(job);
    table.add({volume.name,
               volume.owner,
               bytes_text(volume.size.count),
               where(volume),
               wire::name_of(volume.state),
               volume.encrypted ? "yes" : "no",
               price_text(volume.hourly, volume.currency),
               price_text(volume.charged, volume.currency),
               jobs,
               text(volume.id),
               local_time_text(volume.created)});
  }
  return table;
}

void print_one(Session& session, const Answer<VolumeView>& answer) {
  session.print(
      answer.body,
      {.table = [&] { return table_of({answer.value}); }, .names = [&] { return answer.value.name + "\n"; }});
}

// Until the node has done its work on the volume.
VolumeView settled(Session& session, VolumeId volume, VolumeState busy) {
  auto pause = std::chrono::milliseconds(50);
  for (;;) {
    const auto now = session.get<VolumeView>(path_of(text(volume)), Explain::kPreparation);
    if (now.value.state != busy) return now.value;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 3 / 2, std::chrono::milliseconds(2000));
  }
}

void say_receipt(Session& session, const VolumeView& volume) {
  if (!volume.receipt) return;
  const wire::VolumeReceipt& receipt = *volume.receipt;
  if (!receipt.done)
    throw Failure(kOther, {"'" + volume.name + "': " + receipt.message, "tranche volume list"});
  session.say(volume.name + ": " + std::to_string(receipt.files) + " files, " +
              bytes_text(receipt.bytes.count) + " in " + text(receipt.took) + "; " + receipt.method);
}

void add_create(const Command& group, Program& program) {
  struct Options {
    std::string name{}, size{}, owner{}, node{}, backend{}, pool{};
    bool dry_run = false;
  };
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(group,
                                       {"create",
                                        "Create a volume",
                                        "tranche volume create weights --size 100GB\n"
                                        "tranche volume create data --size 1TB --owner acme --node gpu-01\n"
                                        "tranche volume create datasets --size 10TB --backend shared"});
  command.add_option("name", options->name, "What jobs call it").required();
  command.add_option("--size", options->size, "The most it may hold").required().type_name("SIZE");
  command.add_option("--owner", options->owner, "Tenant or part of one; else what you belong to")
      .type_name("PARTY");
  command.add_option("--node", options->node, "Where it lives; else where the first job with it runs")
      .type_name("NODE");
  command
      .add_option("--backend",
                  options->backend,
                  "node: on one node; shared: in a pool that several nodes mount, for jobs on any of them")
      .type_name("BACKEND");
  command.add_option("--pool", options->pool, "Of a shared one, where there are several").type_name("POOL");
  command.add_flag("--dry-run", options->dry_run, "Say what it would cost; create nothing");
  command.callback([options, &program] {
    Session& session = program.session();
    const auto size = parse_bytes(options->size);
    if (!size) throw usage_failure("--size takes a size such as 100GB, not '" + options->size + "'");
    wire::VolumeCreate body{.name = options->name,
                            .size = *size,
                            .owner = options->owner.empty() ? session.target().subscriber : options->owner,
                            .node = options->node,
                            .pool = options->pool};
    if (!options->backend.empty())
      body.backend = enum_value<wire::VolumeBackend>("--backend", options->backend);
    if (options->dry_run)
      return show_price_plan(
          session,
          session.ask<wire::PricePlan>(
              {.method = "POST", .path = "/v1/volumes?dry_run=true", .body = wire::to_json(body)}));
    print_one(
        session,
        session.ask<VolumeView>({.method = "POST", .path = "/v1/volumes", .body = wire::to_json(body)}));
  });
}

void add_list(const Command& group, Program& program) {
  const auto all = std::make_shared<bool>(false);
  const Command& command =
      add_command(group, {"list", "List volumes", "tranche volume list\ntranche volume list --all -o json"});
  command.add_flag("--all", *all, "Also those that were wiped, with their receipts");
  command.callback([all, &program] {
    Session& session = program.session();
    const auto answer = session.get<VolumeList>(*all ? "/v1/volumes?all=true" : "/v1/volumes");
    session.print(answer.body,
                  {.table = [&] { return table_of(answer.value.items); },
                   .names =
                       [&] {
                         std::string names;
                         for (const VolumeView& one : answer.value.items) names += one.name + "\n";
                         return names;
                       }});
    if (answer.value.items.empty()) session.say("no volumes; tranche volume create NAME --size 10GB");
  });
}

void add_show(const Command& group, Program& program) {
  const auto name = std::make_shared<std::string>();
  const Command& command =
      add_command(group, {"show", "Show one volume", "tranche volume show weights -o json"});
  command.add_option("volume", *name, "Name, owner/name or id").required();
  command.callback(
      [name, &program] { print_one(program.session(), program.session().get<VolumeView>(path_of(*name))); });
}

void add_snapshot(const Command& group, Program& program) {
  const auto names = std::make_shared<std::pair<std::string, std::string>>();
  const Command& command = add_command(group,
                                       {"snapshot",
                                        "Copy a volume that no job uses into a new one, in the same place",
                                        "tranche volume snapshot weights weights-before"});
  command.add_option("volume", names->first, "Name, owner/name or id").required();
  command.add_option("copy", names->second, "Name of the copy").required();
  command.callback([names, &program] {
    Session& session = program.session();
    const auto made =
        session.ask<VolumeView>({.method = "POST",
                                 .path = path_of(names->first) + "/snapshot",
                                 .body = wire::to_json(wire::VolumeSnapshot{.name = names->second})});
    const VolumeView done = settled(session, made.value.id, VolumeState::kCopying);
    print_one(session, {done, wire::to_json(done)});
    say_receipt(session, done);
  });
}

void add_remove(const Command& group, Program& program) {
  const auto name = std::make_shared<std::string>();
  const auto quick = std::make_shared<bool>(false);
  const Command& command =
      add_command(group, {"rm", "Wipe a volume, and show the receipt", "tranche volume rm weights -y"});
  command.add_option("volume", *name, "Name, owner/name or id").required();
  command.add_flag("--no-wait", *quick, "Do not wait for the wipe; `volume list --all` has the receipt");
  command.callback([name, quick, &program] {
    Session& session = program.session();
    session.confirm("Wipe volume " + *name + "? What is in it is lost.");
    const auto answer = session.ask<VolumeView>({.method = "DELETE", .path = path_of(*name)});
    if (*quick) return print_one(session, answer);
    const VolumeView done = settled(session, answer.value.id, VolumeState::kWiping);
    print_one(session, {done, wire::to_json(done)});
    say_receipt(session, done);
  });
}

// A small job that holds the volume, for as long as the command in it runs.
void attach(Session& session,
            const std::string& volume,
            std::vector<std::string> words,
            const std::string& time) {
  const auto colon = volume.find(':');
  wire::JobSpec job;
  job.name = "attach " + volume.substr(0, colon);
  job.volumes.push_back({.name = volume.substr(0, colon), .path = "/volume"});
  if (colon != std::string::npos) {
    const auto mount = wire::Fields<wire::VolumeMount>::from_text(volume);
    if (!mount) throw usage_failure("the volume " + mount.error());
    job.volumes.front() = *mount;
  }
  const auto limit = parse_duration(time);
  if (!limit) throw usage_failure("--time takes a duration such as 1h");
  job.limits.time = *limit;
  const std::string place = job.volumes.front().path;
  end_with(run_interactively(
      session, {.job = std::move(job), .command = std::move(words)}, " has the volume at " + place));
}

void add_attach(const Command& group, Program& program) {
  struct Options {
    std::string volume{}, time = "1h";
    std::vector<std::string> command{};
  };
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(group,
                                       {"attach",
                                        "Run a command, or a shell, in a small job that has the volume",
                                        "tranche volume attach weights\n"
                                        "tranche volume attach weights:/w:ro -- ls -l /w\n"
                                        "tar c models | tranche volume attach weights -- tar x -C /volume"});
  command.add_option("volume", options->volume, "NAME, NAME:/PATH or NAME:/PATH:ro; else at /volume")
      .required();
  command.add_option("--time", options->time, "The longest it may stay attached").type_name("DURATION");
  command.add_option("command", options->command, "Command and its arguments, after --; else a shell");
  command.callback(
      [options, &program] { attach(program.session(), options->volume, options->command, options->time); });
}

}  // namespace

void add_volume_commands(const Command& root, Program& program) {
  const Command& group = add_group(root, {"volume", "Storage that outlives jobs", "tranche volume list"});
  add_create(group, program);
  add_list(group, program);
  add_show(group, program);
  add_attach(group, program);
  add_snapshot(group, program);
  add_remove(group, program);
}

}  // namespace tranche::cli
