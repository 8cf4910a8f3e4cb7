// SPDX-License-Identifier: Apache-2.0
// node, gpus: the machines and devices that work runs on.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/node_table.hpp"
#include "cli/wait_for_tests.hpp"
#include "wire/api_health.hpp"
#include "wire/api_node.hpp"

namespace tranche::cli {
namespace {

bool is_local(const std::string& url) {
  for (const char* host : {"://127.", "://localhost", "://[::1]"})
    if (url.find(host) != std::string::npos) return true;
  return false;
}

using wire::DeviceList;
using wire::NodeChange;
using wire::NodeInvite;
using wire::NodeList;
using wire::NodeView;

wire::TextMap labels_of(const std::vector<std::string>& given) {
  wire::TextMap labels;
  for (const std::string& label : given) {
    const auto equals = label.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage_failure("a label is written KEY=VALUE, not '" + label + "'");
    labels.set(label.substr(0, equals), label.substr(equals + 1));
  }
  return labels;
}

void add_add(const Command& group, Program& program) {
  struct Options {
    std::string name{}, owner{}, site{}, expires = "1h";
    std::vector<std::string> labels{};
  };
  const auto options = std::make_shared<Options>();
  const Command& command =
      add_command(group,
                  {"add",
                   "Invite a machine: prints the line to paste there",
                   "tranche node add gpu-01\n"
                   "tranche node add gpu-02 --owner acme --site madrid --label rack=r7"});
  command.add_option("name", options->name, "What the node is called; sim-* for simulated ones").required();
  command.add_option("--owner", options->owner, "Whose capacity it is; else the platform's")
      .type_name("PARTY");
  command.add_option("--site", options->site, "Where it stands").type_name("TEXT");
  command.add_option("--label", options->labels, "KEY=VALUE, as often as needed").type_name("LABEL");
  command.add_option("--expires", options->expires, "How long the line works").type_name("DURATION");
  command.callback([options, &program] {
    Session& session = program.session();
    const auto life = parse_duration(options->expires);
    if (!life) throw usage_failure("--expires takes a duration such as 1h");
    const wire::NodeAdd body{.name = options->name,
                             .owner = options->owner,
                             .site = options->site,
                             .labels = labels_of(options->labels),
                             .expires_in = *life};
    const auto answer =
        session.ask<NodeInvite>({.method = "POST", .path = "/v1/nodes", .body = wire::to_json(body)});
    session.print(answer.body,
                  {.table =
                       [&] {
                         Table table({{"NODE"}, {"NAME"}, {"COMMAND"}});
                         table.add({text(answer.value.id), answer.value.name, answer.value.command});
                         return table;
                       },
                   .text = [&] { return answer.value.command + "\n"; },
                   .names = [&] { return answer.value.name + "\n"; }});
    session.say("run the line above on that machine before " + local_time_text(answer.value.expires) +
                "; it works once");
    if (is_local(answer.value.address))
      session.say("the server listens for nodes on " + answer.value.address +
                  ", which only this machine reaches; for others start it with --agents ADDRESS:PORT");
  });
}

void add_list(const Command& group, Program& program) {
  const Command& command =
      add_command(group, {"list", "List nodes", "tranche node list\ntranche node list -o wide"});
  command.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<NodeList>("/v1/nodes");
    session.print(answer.body,
                  {.table = [&] { return node_table(answer.value.items); },
                   .names =
                       [&] {
                         std::string names;
                         for (const NodeView& node : answer.value.items) names += node.name + "\n";
                         return names;
                       }});
    if (answer.value.items.empty()) session.say("no nodes; invite one with: tranche node add NAME");
  });
}

void add_show(const Command& group, Program& program) {
  const auto name = std::make_shared<std::string>();
  const Command& command =
      add_command(group, {"show", "Show a node and its devices", "tranche node show gpu-01"});
  command.add_option("node", *name, "Name or id").required();
  command.callback([name, &program] {
    Session& session = program.session();
    const auto answer = session.get<NodeView>("/v1/nodes/" + path_segment(*name));
    session.print(answer.body,
                  {.table = [&] { return device_table(answer.value.devices); },
                   .text = [&] { return node_text(answer.value); },
                   .names = [&] { return answer.value.name + "\n"; }});
  });
}

struct Change {
  std::string name{}, about{}, example{};
  std::optional<bool> cordoned{}, draining{};
};

void add_change(const Command& group, Program& program, const Change& change) {
  const auto name = std::make_shared<std::string>();
  const Command& command = add_command(group, {change.name, change.about, change.example});
  command.add_option("node", *name, "Name or id").required();
  command.callback([name, change, &program] {
    Session& session = program.session();
    const auto answer = session.ask<NodeView>(
        {.method = "PATCH",
         .path = "/v1/nodes/" + path_segment(*name),
         .body = wire::to_json(NodeChange{.cordoned = change.cordoned, .draining = change.draining})});
    session.print(answer.body,
                  {.table = [&] { return node_table({answer.value}); },
                   .names = [&] { return answer.value.name + "\n"; }});
  });
}

void add_label(const Command& group, Program& program) {
  const auto name = std::make_shared<std::string>();
  const auto given = std::make_shared<std::vector<std::string>>();
  const Command& command =
      add_command(group, {"label", "Set labels of a node", "tranche node label gpu-01 rack=r7 tier=gold"});
  command.add_option("node", *name, "Name or id").required();
  command.add_option("labels", *given, "KEY=VALUE; an empty VALUE removes the label").required();
  command.callback([name, given, &program] {
    Session& session = program.session();
    const std::string path = "/v1/nodes/" + path_segment(*name);
    const auto before = session.get<NodeView>(path, Explain::kPreparation);
    wire::TextMap labels = before.value.labels;
    for (const auto& [key, value] : labels_of(*given)) labels.set(key, value);
    wire::TextMap kept;
    for (const auto& [key, value] : labels)
      if (!value.empty()) kept.set(key, value);
    const auto answer = session.ask<NodeView>(
        {.method = "PATCH", .path = path, .body = wire::to_json(NodeChange{.labels = kept})});
    session.print(answer.body,
                  {.table = [&] { return node_table({answer.value}); },
                   .names = [&] { return answer.value.name + "\n"; }});
  });
}

void add_remove(const Command& group, Program& program) {
  const auto name = std::make_shared<std::string>();
  const Command& command =
      add_command(group, {"remove", "Retire a node that runs nothing", "tranche node remove gpu-01 -y"});
  command.add_option("node", *name, "Name or id").required();
  command.callback([name, &program] {
    Session& session = program.session();
    session.confirm("Remove node " + *name + "?");
    session.call({.method = "DELETE", .path = "/v1/nodes/" + path_segment(*name)});
    session.say("removed " + *name);
  });
}

void add_test(const Command& group, Program& program) {
  struct Options {
    std::string node{}, level = "quick";
    bool wait = false;
  };
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(group,
                                       {"test",
                                        "Test the devices of a node that nobody uses",
                                        "tranche node test gpu-01 --level standard\n"
                                        "tranche node test gpu-01 --level full --wait"});
  command.add_option("node", options->node, "Name or id").required();
  command.add_option("--level", options->level, "quick (seconds), standard (all memory once) or full");
  command.add_flag("--wait",
                   options->wait,
                   "Until it is done, saying how far it is; exits with 1 when a device is not fit");
  command.callback([options, &program] {
    Session& session = program.session();
    const wire::NodeTest wish{.level = enum_value<wire::TestLevel>("--level", options->level)};
    const std::string path = "/v1/nodes/" + path_segment(options->node) + "/test";
    const auto before = options->wait ? session.get<wire::NodeTestView>(path, Explain::kPreparation).value
                                      : wire::NodeTestView{};
    const auto answer =
        session.ask<wire::NodeTest>({.method = "POST", .path = path, .body = wire::to_json(wish)});
    if (options->wait) {
      for (const std::string& why : answer.value.skipped) session.say("skipped: " + why);
      if (answer.value.ordered.empty())
        throw Failure(kConflict, {"nothing was tested", "tranche health board shows who is on its devices"});
      return wait_for_tests(session, path, answer.value.ordered, before);
    }
    session.print(answer.body,
                  {.table =
                       [&] {
                         Table table({{"DEVICE"}, {"TEST"}});
                         for (const DeviceId id : answer.value.ordered) table.add({text(id), "ordered"});
                         for (const std::string& why : answer.value.skipped)
                           table.add({"-", "skipped: " + why});
                         return table;
                       },
                   .names =
                       [&] {
                         std::string names;
                         for (const DeviceId id : answer.value.ordered) names += text(id) + "\n";
                         return names;
                       }});
    if (!answer.value.ordered.empty())
      session.say("tranche health board shows how far it is, and what it found; --wait waits for it");
  });
}

void add_gpus(const Command& root, Program& program) {
  const Command& command = add_command(root,
                                       {"gpus",
                                        "List devices: what there is, how much of it is taken and used",
                                        "tranche gpus\ntranche gpus -o csv"});
  command.callback([&program] {
    Session& session = program.session();
    const auto answer = session.get<DeviceList>("/v1/devices");
    session.print(answer.body,
                  {.table = [&] { return device_table(answer.value.items); },
                   .text = [&] { return devices_text(answer.value.items); },
                   .names =
                       [&] {
                         std::string names;
                         for (const auto& device : answer.value.items) names += text(device.id) + "\n";
                         return names;
                       }});
    if (answer.value.items.empty()) session.say("no devices; add a node with: tranche node add NAME");
  });
}

}  // namespace

void add_node_commands(const Command& root, Program& program) {
  const Command& group = add_group(root, {"node", "Machines that bring capacity", "tranche node list"});
  add_add(group, program);
  add_list(group, program);
  add_show(group, program);
  add_change(
      group,
      program,
      {"cordon", "Nothing new starts there; what runs goes on", "tranche node cordon gpu-01", true, {}});
  add_change(group,
             program,
             {"uncordon", "Open it to new work again", "tranche node uncordon gpu-01", false, false});
  add_change(group,
             program,
             {"drain",
              "Nothing new, and what runs is checkpointed and moved",
              "tranche node drain gpu-01",
              {},
              true});
  add_label(group, program);
  add_test(group, program);
  add_remove(group, program);
  add_gpus(root, program);
}

}  // namespace tranche::cli
