// SPDX-License-Identifier: Apache-2.0
// The packing trial on small traces written here: what it reads, what it refuses, and that it counts right.
#include <cstdio>
#include <doctest/doctest.h>
#include <fstream>
#include <string>

#include "sim/pack_churn.hpp"
#include "sim/pack_consolidate.hpp"
#include "sim/pack_csv.hpp"
#include "sim/pack_report.hpp"

namespace tranche::sim {
namespace {

class TempFile {
 public:
  explicit TempFile(const std::string& content) {
    static int number = 0;
    path_ = std::tmpnam(name_) + ("." + std::to_string(++number) + ".csv");
    std::ofstream(path_) << content;
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  char name_[L_tmpnam]{};
  std::string path_;
};

std::string small_nodes() {
  std::string out = "sn,cpu_milli,memory_mib,gpu,model\n";
  for (int i = 0; i < 24; ++i)
    out += "node-" + std::to_string(100 + i) + (i % 3 == 0 ? ",32000,131072,2,T4\n" : ",96000,393216,8,G2\n");
  return out;
}

std::string small_tasks() {
  std::string out = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";
  const char* kinds[] = {"12000,16384,1,1000,",
                         "6000,12288,1,460,",
                         "4000,8192,1,250,T4|G2",
                         "8000,4096,0,0,",
                         "48000,65536,4,1000,G2",
                         "2000,4096,1,700,T4"};
  for (int i = 0; i < 180; ++i) out += "task-" + std::to_string(i) + "," + kinds[(i * i + i / 7) % 6] + "\n";
  return out;
}

std::string complaint(const std::string& content) {
  const TempFile file(content);
  ModelNames models;
  try {
    read_tasks(file.path(), models);
  } catch (const TraceError& error) { return std::string(error.what()).substr(file.path().size()); }
  return "accepted";
}

TEST_CASE("trace: a bad file is refused by file, line and column") {
  const std::string head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  CHECK(complaint("") == ": empty: a header line with column titles is needed");
  CHECK(complaint(head) == ": no tasks below the header");
  CHECK(complaint("a,b\n1,2\n") == ":1: no column 'cpu_milli'; there are: a, b");
  CHECK(complaint(head + "a,1000,1,1,500\nb,1x,1,1,500\n") ==
        ":3: column 'cpu_milli': '1x' is not a whole number");
  CHECK(complaint(head + "a,1000,1,1\n") == ":2: 4 columns, the header has 5");
  CHECK(complaint(head + "a,1000,1,99,1000\n") == ":2: column 'num_gpu': 99 is outside 0 to 16");
  CHECK(complaint(head + "a,-1,1,1,1000\n") == ":2: column 'cpu_milli': -1 is outside 0 to 1000000000");
  CHECK(complaint(head + "a,1,1,2,500\n").find("only num_gpu = 1") != std::string::npos);
  CHECK(complaint(head + "a,1,1,0,0\n") == ": no task asks for a GPU");
  CHECK(complaint(head + "a,1000,1,1,500\r\n\n") == "accepted");
  ModelNames models;
  CHECK_THROWS_AS(read_nodes("/does/not/exist.csv", models), TraceError);
}

TEST_CASE("seeds: a number or a range") {
  CHECK(parse_seeds("42-51") == std::pair<std::uint64_t, std::uint64_t>{42, 51});
  CHECK(parse_seeds("7") == std::pair<std::uint64_t, std::uint64_t>{7, 7});
  for (const char* bad : {"", "-", "a", "5-", "-5", "9-3", "1-2-3", "1 "}) CHECK_FALSE(parse_seeds(bad));
}

struct Small {
  Small() : node_file(small_nodes()), task_file(small_tasks()) {
    nodes = read_nodes(node_file.path(), models);
    tasks = read_tasks(task_file.path(), models);
  }
  TempFile node_file;
  TempFile task_file;
  ModelNames models;
  PackNodes nodes;
  PackTasks tasks;
};

// Replays the decisions on counters of its own: nothing oversold, and a drop fits nowhere.
class Auditor {
 public:
  explicit Auditor(const PackNodes& nodes) : nodes_(nodes) {
    for (const TraceNode& node : nodes.nodes) {
      left_.push_back({node.spec.cpu_milli,
                       node.spec.memory_mib,
                       std::vector<int>(static_cast<std::size_t>(node.spec.devices), 1000)});
    }
  }
  void see(const PackDecision& made) {
    const policy::Shape& shape = *made.shape;
    if (made.node == nullptr) {
      for (std::size_t i = 0; i < left_.size(); ++i) CHECK_FALSE(fits(i, shape));
      return;
    }
    std::size_t at = 0;
    while (nodes_.nodes[at].name != *made.node) ++at;
    REQUIRE(fits(at, shape));
    Left& left = left_[at];
    left.cpu -= shape.cpu_milli;
    left.memory -= shape.memory_mib;
    int wanted = shape.devices;
    if (shape.shares()) {
      left.milli[static_cast<std::size_t>(made.device)] -= shape.milli;
      CHECK(left.milli[static_cast<std::size_t>(made.device)] >= 0);
    } else {
      for (int& milli : left.milli) {
        if (wanted == 0 || milli != 1000) continue;
        milli = 0;
        --wanted;
      }
      CHECK(wanted == 0);
    }
    allocated += shape.gpu_milli();
  }
  std::int64_t allocated = 0;

 private:
  struct Left {
    std::int64_t cpu = 0;
    std::int64_t memory = 0;
    std::vector<int> milli;
  };
  [[nodiscard]] bool fits(std::size_t at, const policy::Shape& shape) const {
    const Left& left = left_[at];
    if (left.cpu < shape.cpu_milli || left.memory < shape.memory_mib) return false;
    if (shape.devices == 0) return true;
    if (shape.models != 0 && ((shape.models >> nodes_.nodes[at].spec.model) & 1U) == 0) return false;
    int count = 0;
    for (const int milli : left.milli) count += milli >= shape.milli ? 1 : 0;
    return count >= shape.devices;
  }
  const PackNodes& nodes_;
  std::vector<Left> left_;
};

TEST_CASE("packing: under every policy nothing is oversold and what is dropped fits nowhere") {
  const Small small;
  for (const char* name : {"default", "fgd", "bestfit", "packing", "clustering", "dotprod", "random"}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(name);
      CAPTURE(seed);
      Auditor auditor(small.nodes);
      PackOptions options;
      options.policy = *parse_pack_policy(name);
      options.seed = seed;
      options.watch = [&](const PackDecision& made) { auditor.see(made); };
      const PackRun run = run_pack(small.nodes, small.tasks, options);
      CHECK(run.unallocated_milli_at_end == small.nodes.capacity_milli - auditor.allocated);
      CHECK(run.dropped > 0);
      CHECK(run.allocation_at_100 > 60);
      options.watch = nullptr;
      CHECK(run_pack(small.nodes, small.tasks, options).allocation_curve == run.allocation_curve);
    }
  }
  CHECK_FALSE(parse_pack_policy("best"));
}

TEST_CASE("packing: consolidation never allocates less, and reports its moves") {
  const Small small;
  std::uint64_t moves = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    PackOptions options;
    options.policy = PackPolicy::kBestFit;
    options.seed = seed;
    const PackRun plain = run_pack(small.nodes, small.tasks, options);
    const PackRun moved = run_consolidated(small.nodes, small.tasks, options);
    CHECK(moved.allocation_at_end >= plain.allocation_at_end);
    moves += moved.moves;
  }
  CHECK(moves > 0);
}

TEST_CASE("churn: the same seed gives the same run, and a drift changes it") {
  const Small small;
  PackOptions options;
  options.seed = 5;
  ChurnOptions churn{.load = 1.2, .arrivals = 3000};
  const PackRun first = run_churn(small.nodes, small.tasks, options, churn);
  CHECK(run_churn(small.nodes, small.tasks, options, churn).allocation_at_100 == first.allocation_at_100);
  CHECK(first.allocation_at_100 > 50);
  PackTasks other = small.tasks;
  other.tasks.resize(20);
  churn.drift = &other;
  CHECK(run_churn(small.nodes, small.tasks, options, churn).allocation_at_100 != first.allocation_at_100);
}

TEST_CASE("report: JSON carries what scripts rely on") {
  const Small small;
  PackTrial trial;
  trial.nodes_path = small.node_file.path();
  trial.tasks_path = small.task_file.path();
  trial.first_seed = 3;
  trial.last_seed = 4;
  const PackReport report = run_trial(trial, {});
  const std::string json = report_json(report);
  for (const char* field : {"\"allocation_percent_mean\": ",
                            "\"allocation_percent_per_seed\": [",
                            "\"decisions_per_second\": ",
                            "\"moves_mean\": ",
                            "\"seeds\": [3, 4]"}) {
    CAPTURE(field);
    CHECK(json.find(field) != std::string::npos);
  }
  CHECK(report_text(report).find("mean") != std::string::npos);
}

}  // namespace
}  // namespace tranche::sim
