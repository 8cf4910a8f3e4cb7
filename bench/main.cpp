// SPDX-License-Identifier: Apache-2.0
// tranche-bench: every benchmark of the project by name.
//   tranche-bench list | tranche-bench NAME… [-o json] [--only PATTERN]
#include <cstdio>
#include <string>
#include <vector>

#include "bench/bench.hpp"
#include "cli/output.hpp"

namespace tranche::bench {
namespace {

std::vector<Suite> suites() {
  return {agent_suite(),
          api_suite(),
          cli_suite(),
          engine_suite(),
          schedule_suite(),
          forecast_suite(),
          guard_opencl_suite(),
          guard_suite(),
          health_suite(),
          journal_suite(),
          ledger_suite(),
          market_suite(),
          net_suite(),
          placement_suite(),
          replay_suite(),
          sizing_suite(),
          wire_suite(),
          workloads_suite()};
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.4g", value);
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

const char* source_name(PeerSource source) {
  switch (source) {
    case PeerSource::kMeasured:
      return "\"measured\"";
    case PeerSource::kQuoted:
      return "\"quoted\"";
    case PeerSource::kNone:
      break;
  }
  return "null";
}

void print_json(const std::vector<Row>& rows) {
  std::puts("[");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::printf(
        R"(  {"what": %s, "value": %s, "unit": %s, "goal": %s, "peer": %s, "peer_source": %s, "met": %s}%s)"
        "\n",
        quoted(row.what).c_str(),
        number(row.value).c_str(),
        quoted(row.unit).c_str(),
        row.goal == 0 ? "null" : number(row.goal).c_str(),
        row.peer.empty() ? "null" : quoted(row.peer).c_str(),
        source_name(row.peer_source),
        row.goal == 0 ? "null" : (row.met() ? "true" : "false"),
        i + 1 == rows.size() ? "" : ",");
  }
  std::puts("]");
}

void print_table(const std::vector<Row>& rows) {
  cli::Table table(
      {{"WHAT"}, {"VALUE", cli::Align::kRight}, {"UNIT"}, {"GOAL", cli::Align::kRight}, {"MET"}, {"PEER"}});
  for (const Row& row : rows) {
    const std::string goal =
        row.goal == 0 ? "-" : (row.better == Better::kHigher ? ">= " : "<= ") + number(row.goal);
    std::string peer = row.peer;
    if (row.peer_source == PeerSource::kQuoted) peer += " (quoted)";
    if (row.peer_source == PeerSource::kMeasured) peer += " (measured)";
    table.add({row.what,
               number(row.value),
               row.unit,
               goal,
               row.goal == 0 ? "-" : (row.met() ? "yes" : "NO"),
               peer});
  }
  std::fputs(table.text().c_str(), stdout);
}

int run(const std::vector<std::string>& names, bool json) {
  std::vector<Row> rows;
  int status = cli::kOk;
  for (const std::string& name : names) {
    bool known = false;
    for (const Suite& suite : suites()) {
      if (suite.name != name) continue;
      known = true;
      std::fprintf(stderr, "running %s: %s\n", suite.name.c_str(), suite.about.c_str());
      try {
        const auto measured = suite.run();
        rows.insert(rows.end(), measured.begin(), measured.end());
      } catch (const std::exception& problem) {  // Caught, so that what it started is ended.
        std::fprintf(stderr, "tranche-bench: %s broke off: %s\n", name.c_str(), problem.what());
        status = cli::kOther;
      }
    }
    if (!known) {
      std::fprintf(stderr, "tranche-bench: no benchmark '%s'; see tranche-bench list\n", name.c_str());
      return cli::kUsage;
    }
  }
  json ? print_json(rows) : print_table(rows);
  return status;
}

}  // namespace
}  // namespace tranche::bench

int main(int argc, char** argv) {
  using namespace tranche;
  std::vector<std::string> names;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-o" && i + 1 < argc) {
      json = std::string(argv[++i]) == "json";
    } else if (word == "--only" && i + 1 < argc) {
      bench::run_only(argv[++i]);
    } else {
      names.push_back(word);
    }
  }
  if (names.empty() || names[0] == "list" || names[0] == "--help") {
    std::puts("usage: tranche-bench list | tranche-bench NAME... [-o json] [--only PATTERN]");
    for (const auto& suite : bench::suites())
      std::printf("  %-12s %s\n", suite.name.c_str(), suite.about.c_str());
    return cli::kOk;
  }
  return bench::run(names, json);
}
