// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of evidence: a figure, the goal beside it, and what a peer reaches.
#include <functional>
#include <string>
#include <vector>

namespace tranche::bench {

enum class Better { kHigher, kLower };
enum class PeerSource {
  kNone,
  kMeasured,
  kQuoted
};  // Measured in this very run, or taken from a publication.

struct Row {
  std::string what{};
  double value = 0;
  std::string unit{};
  double goal = 0;  // Zero: no goal, reported only.
  Better better = Better::kHigher;
  std::string peer{};  // For people: "Slurm 58/s, without a sandbox".
  PeerSource peer_source = PeerSource::kNone;
  [[nodiscard]] bool met() const {
    return goal == 0 || (better == Better::kHigher ? value >= goal : value <= goal);
  }
};

struct Suite {
  std::string name{};
  std::string about{};
  std::function<std::vector<Row>()> run{};  // Bounded in time, and ends by itself.
};

// `--only PATTERN[,PATTERN…]`: a suite asks for each of its parts by name before it runs it.
void run_only(const std::string& patterns);
bool wanted(const std::string& part);
// What a suite that takes long is doing now, for whoever waits: to the error stream.
void progress(const std::string& what);

// Each suite lives in its own file; main.cpp lists them.
Suite guard_suite();
Suite guard_opencl_suite();
Suite agent_suite();
std::vector<Row> node_path_rows();  // Part of agent_suite().
std::vector<Row> adoption_rows();   // Too, as are these.
std::vector<Row> device_start_rows();
std::vector<Row> fleet_link_rows();
std::vector<Row> neighbour_rows();
Suite api_suite();
Suite cli_suite();
Suite engine_suite();
Suite schedule_suite();
Suite forecast_suite();
Suite health_suite();
std::vector<Row> health_table_rows();  // Parts of health_suite().
std::vector<Row> handover_rows();
std::vector<Row> fleet_month_rows();
std::vector<Row> health_path_rows();
Suite journal_suite();
Suite ledger_suite();
Suite market_suite();
Suite sizing_suite();
Suite wire_suite();
Suite net_suite();
Suite placement_suite();
Suite replay_suite();
Suite workloads_suite();

}  // namespace tranche::bench
