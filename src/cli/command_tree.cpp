// SPDX-License-Identifier: Apache-2.0
#include "cli/command_tree.hpp"

#include <CLI/CLI.hpp>

#include "wire/json_writer.hpp"

namespace tranche::cli {
namespace {

CommandOption option_of(const CLI::Option& option) {
  CommandOption out{.about = option.get_description()};
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  if (out.names.empty()) out.names.push_back(option.get_name());
  out.positional = option.get_positional();
  out.required = option.get_required();
  out.many = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() > 0) {
    out.value = option.get_type_name().empty() ? "VALUE" : option.get_type_name();
  }
  return out;
}

// The indented lines of a footer, with or without a prompt.
std::vector<std::string> examples_of(const CLI::App& command) {
  std::vector<std::string> examples;
  const std::string footer = command.get_footer();
  for (std::size_t at = 0; at < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', at), footer.size());
    std::string line = footer.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with("  ")) continue;
    line.erase(0, line.find_first_not_of(' '));
    if (line.starts_with("$ ")) line.erase(0, 2);
    if (!line.empty()) examples.push_back(std::move(line));
  }
  return examples;
}

void append_texts(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (const std::string& text : texts) {
    if (out.back() != '[') out += ',';
    wire::append_json_string(out, text);
  }
  out += ']';
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += ",\"";
  out += name;
  out += "\":";
  wire::append_json_string(out, value);
}

void append_option(std::string& out, const CommandOption& option) {
  out += R"({"names":)";
  append_texts(out, option.names);
  append_field(out, "about", option.about);
  append_field(out, "value", option.value);
  out += option.positional ? R"(,"positional":true)" : R"(,"positional":false)";
  out += option.required ? R"(,"required":true)" : R"(,"required":false)";
  out += option.many ? R"(,"many":true)" : R"(,"many":false)";
  append_texts(out += R"(,"values":)", known_values(option));
  out += '}';
}

void append_node(std::string& out, const CommandNode& node) {
  out += R"({"name":)";
  wire::append_json_string(out, node.name);
  append_field(out, "about", node.about);
  append_texts(out += R"(,"examples":)", node.examples);
  out += R"(,"options":[)";
  for (std::size_t i = 0; i < node.options.size(); ++i) {
    if (i > 0) out += ',';
    append_option(out, node.options[i]);
  }
  out += R"(],"commands":[)";
  for (std::size_t i = 0; i < node.commands.size(); ++i) {
    if (i > 0) out += ',';
    append_node(out, node.commands[i]);
  }
  out += "]}";
}

}  // namespace

CommandNode command_tree(const CLI::App& root) {
  CommandNode node{.name = root.get_name(), .about = root.get_description(), .examples = examples_of(root)};
  for (const CLI::Option* option : root.get_options()) node.options.push_back(option_of(*option));
  for (const CLI::App* command : root.get_subcommands({})) {
    if (!command->get_name().empty()) node.commands.push_back(command_tree(*command));
  }
  return node;
}

std::string command_tree_json(const CommandNode& root) {
  std::string out;
  append_node(out, root);
  return out;
}

std::vector<std::string> known_values(const CommandOption& option) {
  const std::string& name = option.names.empty() ? option.value : option.names.front();
  if (name == "--output") return {"table", "wide", "json", "jsonl", "yaml", "csv", "name"};
  if (name == "--state") return {"pending", "running", "succeeded", "failed", "stopped"};
  if (name == "--kind")
    return {"batch", "inference", "finetune", "training", "render", "video", "interactive"};
  if (name == "--scope") return {"read", "jobs", "admin"};
  if (name == "--over-quota") return {"on-demand", "refuse"};
  if (name == "--period") return {"day", "week", "month"};
  if (name == "--role" || name == "role") {
    return {"platform_owner",
            "tenant_admin",
            "subscriber_admin",
            "member",
            "viewer",
            "auditor",
            "billing",
            "capacity_owner"};
  }
  if (name == "shell") return {"bash", "zsh", "fish"};
  return {};
}

}  // namespace tranche::cli
