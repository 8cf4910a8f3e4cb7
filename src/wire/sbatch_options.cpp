// SPDX-License-Identifier: Apache-2.0
#include "wire/sbatch_options.hpp"

#include <algorithm>
#include <array>

#include "wire/nearest.hpp"

namespace tranche::wire::sbatch {
namespace {

constexpr std::string_view kMark = "#SBATCH";

struct Known {
  std::string_view name{};
  char letter = 0;
  bool takes_value = true;
  std::string_view refused{};  // Why it cannot be honoured; empty: it can.
};
constexpr auto kKnown = std::to_array<Known>({
    {"job-name", 'J'},
    {"gres"},
    {"gpus", 'G'},
    {"gpus-per-node"},
    {"gpus-per-task"},
    {"time", 't'},
    {"cpus-per-task", 'c'},
    {"mem"},
    {"mem-per-cpu"},
    {"nodes", 'N'},
    {"ntasks", 'n'},
    {"ntasks-per-node"},
    {"output", 'o'},
    {"error", 'e'},
    {"chdir", 'D'},
    {"export"},
    {"signal"},
    {"requeue", 0, false},
    {"exclusive", 0, false},
    {"reservation"},
    {"array", 'a'},
    {"dependency", 'd'},
    {"begin", 'b', true, "book a window instead: tranche book"},
    {"deadline", 0, true, "give a deadline in a job file"},
    {"partition", 'p', true, "there are no partitions; what runs where follows from what is asked for"},
    {"account", 'A', true, "say who it is for with --owner"},
    {"qos", 'q', true, "use --priority and --preemptible"},
    {"constraint", 'C', true, "name the model of the device: --gpus h100:1"},
    {"nodelist", 'w', true, "nodes are chosen by the platform"},
    {"exclude", 'x', true, "nodes are chosen by the platform"},
    {"mail-type", 0, true, "follow it instead: tranche wait JOB"},
    {"mail-user", 0, true, "follow it instead: tranche wait JOB"},
    {"licenses", 'L', true, "there are no licences to count"},
    {"nice", 0, true, "use --priority"},
    {"no-requeue", 0, false, "work that loses its node is always run again"},
    {"tmp", 0, true, "there is no size of temporary space to ask for"},
    {"hint", 0, true, "cores are chosen by the platform"},
    {"gpu-bind", 0, true, "a job sees its own devices alone"},
    {"mem-per-gpu", 0, true, "use --mem"},
    {"cpus-per-gpu", 0, true, "use --cpus-per-task"},
    {"ntasks-per-gpu", 0, true, "the script runs once on each node"},
    {"wrap", 0, true, "use: tranche run -- COMMAND"},
});

const Known* known(std::string_view name) {
  const auto found =
      std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& one) { return one.name == name; });
  return found == kKnown.end() ? nullptr : &*found;
}
const Known* known(char letter) {
  const auto found = std::find_if(
      kKnown.begin(), kKnown.end(), [&](const Known& one) { return one.letter == letter && letter != 0; });
  return found == kKnown.end() ? nullptr : &*found;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Words of one line, quotes taken off; a lone # begins a comment.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool any = false;
  for (const char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      any = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (any || !word.empty()) words.push_back(std::exchange(word, {}));
      any = false;
    } else if (c == '#' && word.empty() && !any) {
      break;
    } else {
      word += c;
    }
  }
  if (any || !word.empty()) words.push_back(std::move(word));
  return words;
}

}  // namespace

Problem wrong(const Option& option, std::string message, std::string hint) {
  return {.path = "--" + option.name,
          .message = std::move(message),
          .hint = std::move(hint),
          .line = option.line};
}

Head head_of(std::string_view text) {
  Head head;
  bool over = false;
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (number == 1 && line.starts_with("#!")) head.interpreter = std::string(trimmed(line.substr(2)));
    const bool marked = line.starts_with(kMark) && (line.size() == kMark.size() ||
                                                    line[kMark.size()] == ' ' || line[kMark.size()] == '\t');
    if (marked && over) head.ignored.push_back(number);
    if (marked && !over) head.lines.emplace_back(number, line.substr(kMark.size()));
    const std::string_view rest = trimmed(line);
    over = over || (!rest.empty() && rest.front() != '#');
  }
  return head;
}

Result<std::vector<Option>, Problem> options_of(const Head& head) {
  std::vector<Option> options;
  for (const auto& [line, text] : head.lines) {
    const std::vector<std::string> words = words_of(text);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      Option option{.line = line};
      const Known* meant = nullptr;
      bool has_value = false;
      if (word.starts_with("--")) {
        const std::size_t equals = word.find('=');
        has_value = equals != std::string::npos;
        option.name = word.substr(2, has_value ? equals - 2 : std::string::npos);
        if (has_value) option.value = word.substr(equals + 1);
        meant = known(option.name);
      } else if (word.size() >= 2 && word[0] == '-') {
        meant = known(word[1]);
        option.name = meant == nullptr ? word.substr(1) : std::string(meant->name);
        has_value = word.size() > 2;
        if (has_value) option.value = word.substr(word[2] == '=' ? 3 : 2);
      } else {
        return refuse(Problem{.message = "'" + word + "' is no option of sbatch", .line = line});
      }
      if (meant == nullptr) {
        std::vector<std::string_view> names;
        for (const Known& one : kKnown) names.push_back(one.name);
        return refuse(wrong(option, "is no option that is known here", nearest_hint(option.name, names)));
      }
      if (!meant->refused.empty())
        return refuse(wrong(option, "cannot be honoured", std::string(meant->refused)));
      if (meant->takes_value && !has_value) {
        if (i + 1 == words.size()) return refuse(wrong(option, "has no value"));
        option.value = words[++i];
      }
      options.push_back(std::move(option));
    }
  }
  return options;
}

}  // namespace tranche::wire::sbatch
