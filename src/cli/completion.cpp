// SPDX-License-Identifier: Apache-2.0
// Completion scripts for bash, zsh and fish, written out from the tree of commands.
#include <algorithm>
#include <functional>

#include "cli/command_tree.hpp"

namespace tranche::cli {
namespace {

using Visit = std::function<void(const CommandNode& node, const std::string& path)>;

void each_command(const CommandNode& node, const std::string& path, const Visit& visit) {
  visit(node, path);
  for (const CommandNode& child : node.commands) {
    each_command(child, path.empty() ? child.name : path + " " + child.name, visit);
  }
}

std::string words_of(const CommandNode& node, const CommandNode& root) {
  std::string words;
  for (const CommandNode& child : node.commands) words += child.name + " ";
  const auto add = [&](const CommandNode& from) {
    for (const CommandOption& option : from.options) {
      if (option.positional) {
        for (const std::string& value : known_values(option)) words += value + " ";
        continue;
      }
      for (const std::string& name : option.names) words += name + " ";
    }
  };
  add(node);
  if (&node != &root) add(root);
  if (!words.empty()) words.pop_back();
  return words;
}

std::string joined(const std::vector<std::string>& words, char between) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += between;
    out += word;
  }
  return out;
}

// Options whose value is one of a few words, over the whole tree: pattern and words.
std::string bash_value_cases(const CommandNode& root) {
  std::string cases;
  std::vector<std::string> done;
  each_command(root, "", [&](const CommandNode& node, const std::string&) {
    for (const CommandOption& option : node.options) {
      const auto values = known_values(option);
      if (option.positional || values.empty()) continue;
      const std::string pattern = joined(option.names, '|');
      if (std::find(done.begin(), done.end(), pattern) != done.end()) continue;
      done.push_back(pattern);
      cases += "    " + pattern + ") COMPREPLY=($(compgen -W '" + joined(values, ' ') +
               "' -- \"$word\")); return;;\n";
    }
  });
  return cases;
}

// bash and zsh (through bashcompinit) share one function: the path of subcommands so far decides the words.
std::string bash_function(const CommandNode& root) {
  std::string known;  // All paths, to tell a subcommand from an argument.
  std::string cases;
  each_command(root, "", [&](const CommandNode& node, const std::string& path) {
    if (!path.empty()) known += "|" + path;
    cases += "    '" + path + "') words='" + words_of(node, root) + "';;\n";
  });
  return "_tranche() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path='' words='' i\n"
         "  local known='" +
         known +
         "|'\n"
         "  case $before in\n" +
         bash_value_cases(root) +
         "    -f|--file|--token-file|--ca-file) COMPREPLY=($(compgen -f -- \"$word\")); return;;\n"
         "  esac\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    local next=\"${path:+$path }${COMP_WORDS[i]}\"\n"
         "    [[ $known == *\"|$next|\"* ]] && path=$next\n"
         "  done\n"
         "  case $path in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n";
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_option(const CommandOption& option, const std::string& condition) {
  std::string line = "complete -c tranche" + condition;
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) line += option.value == "FILE" ? " -rF" : " -x";
  if (const auto values = known_values(option); !values.empty())
    line += " -a " + fish_quoted(joined(values, ' '));
  return line + " -d " + fish_quoted(option.about) + "\n";
}

std::string fish_script(const CommandNode& root) {
  std::string out =
      "# The subcommands typed so far, without options.\n"
      "function __tranche_path\n"
      "  set -l words (commandline -opc)\n"
      "  set -l path\n"
      "  for word in $words[2..-1]\n"
      "    string match -q -- '-*' $word; or set path $path $word\n"
      "  end\n"
      "  string join ' ' $path\n"
      "end\n"
      "function __tranche_at\n"
      "  set -l path (__tranche_path)\n"
      "  test \"$path\" = \"$argv\"; or string match -q -- \"$argv *\" \"$path\"\n"
      "end\n"
      "complete -c tranche -f\n";
  each_command(root, "", [&](const CommandNode& node, const std::string& path) {
    const std::string at = path.empty() ? "" : " -n " + fish_quoted("__tranche_at " + path);
    const std::string exactly = " -n " + fish_quoted("test (__tranche_path) = '" + path + "'");
    for (const CommandNode& child : node.commands) {
      out += "complete -c tranche" + exactly + " -a " + child.name + " -d " + fish_quoted(child.about) + "\n";
    }
    for (const CommandOption& option : node.options) {
      if (!option.positional) out += fish_option(option, at);
    }
  });
  return out;
}

}  // namespace

std::string completion_script(const CommandNode& root, Shell shell) {
  switch (shell) {
    case Shell::kBash:
      return "# bash completion for tranche: source it, or put it into /etc/bash_completion.d\n" +
             bash_function(root) + "complete -o bashdefault -F _tranche tranche\n";
    case Shell::kZsh:
      return "#compdef tranche\nautoload -U +X bashcompinit && bashcompinit\n" + bash_function(root) +
             "complete -F _tranche tranche\n";
    case Shell::kFish:
      return fish_script(root);
  }
  return {};
}

}  // namespace tranche::cli
