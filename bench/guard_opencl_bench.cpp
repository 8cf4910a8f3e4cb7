// SPDX-License-Identifier: Apache-2.0
// The guard on a real OpenCL device (PoCL): shares by identical work-items, what the guard costs, pause,
// zeroing. The workloads know nothing of the guard and count for themselves.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "bench/guard_rows.hpp"

namespace tranche::bench {
namespace {

namespace fs = std::filesystem;

fs::path build_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

// A program with pipes to talk to it.
struct Program {
  pid_t pid = -1;
  std::FILE* in = nullptr;
  std::FILE* out = nullptr;
};

Program start(const std::string& command) {
  int to[2];
  int from[2];
  if (::pipe(to) != 0 || ::pipe(from) != 0) return {};
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    for (const int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  return {pid, ::fdopen(to[1], "w"), ::fdopen(from[0], "r")};
}

std::string line_of(const Program& program) {
  char text[512] = "";
  return std::fgets(text, sizeof text, program.out) == nullptr ? "" : text;
}

void finish(Program& program) {
  std::fclose(program.in);
  std::fclose(program.out);
  ::waitpid(program.pid, nullptr, 0);
}

double number(const std::string& json, const std::string& name) {
  const auto at = json.find("\"" + name + "\":");
  return at == std::string::npos ? 0 : std::strtod(json.c_str() + at + name.size() + 3, nullptr);
}

std::string guarded(const std::string& name, const std::string& limits) {
  return (build_folder() / "tranche").string() + " guard run --quiet --name " + name + " " + limits + " -- ";
}

std::string client(const std::string& line) {
  return (build_folder() / "opencl" / line).string();
}

// Kernels of 3 ms on two cores of today.
constexpr char kWork[] = "cl_tenant --items 4096 --rounds 1000 --in-flight 16";
constexpr char kWindow[] = " --announce 1 --seconds 4 --lead-seconds 1";
constexpr const char* kThirtySeventy[] = {"--vram 1GiB --compute 30% --mode fair",
                                          "--vram 1GiB --compute 70% --mode fair"};
// The host does other things now and then, and its clock speeds change: what is compared runs in turns, and
// one disturbed turn does not decide.
constexpr int kTurns = 5;

// Work-items that each tenant finished in the same window.
std::vector<double> race(const std::vector<std::string>& prefixes, const std::string& work = kWork) {
  std::vector<Program> programs;
  for (const std::string& prefix : prefixes) programs.push_back(start(prefix + client(work + kWindow)));
  for (const Program& program : programs) line_of(program);  // "ready"
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const long long at = now.tv_sec * 1'000'000'000LL + now.tv_nsec + 200'000'000;
  for (const Program& program : programs) {
    std::fprintf(program.in, "%lld\n", at);
    std::fflush(program.in);
  }
  std::vector<double> items;
  for (Program& program : programs) {
    items.push_back(number(line_of(program), "items"));
    finish(program);
  }
  return items;
}

std::vector<double> thirty_seventy(const std::string& work = kWork) {
  return race({guarded("thirty", kThirtySeventy[0]), guarded("seventy", kThirtySeventy[1])}, work);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Each turn in the other order, so that neither is always the one behind.
void shares(Rows& out) {
  std::vector<double> off;
  std::vector<double> together;
  std::vector<double> unguarded;
  std::vector<double> against_none;
  for (int turn = 0; turn < kTurns; ++turn) {
    double alone = 0;
    double bare = 0;
    const auto run_alone = [&] {
      alone = race({guarded("alone", "--vram 1GiB --compute 100% --mode fair")})[0];
    };
    if (turn % 2 == 0) run_alone();
    bare = race({""})[0];
    if (turn % 2 != 0) run_alone();
    const auto pair = thirty_seventy();
    const auto bare_pair = race({"", ""});
    const double sum = pair[0] + pair[1];
    if (sum == 0 || alone == 0 || bare == 0) continue;
    off.push_back(std::abs(pair[0] / sum * 100 - 30));
    together.push_back(sum / alone * 100);
    unguarded.push_back((bare_pair[0] + bare_pair[1]) / bare * 100);
    against_none.push_back(alone / bare * 100);
    progress("turn " + std::to_string(turn + 1) + ": off by " + std::to_string(off.back()) + ", sum " +
             std::to_string(together.back()) + " % (no guard: " + std::to_string(unguarded.back()) +
             " %), against no guard " + std::to_string(against_none.back()) + " %");
  }
  if (off.size() < 3) throw std::runtime_error("fewer than three turns of the OpenCL comparison ended");
  out.add("OpenCL on PoCL, 30/70: off by (median of turns)", median(off), "points", 2, Better::kLower);
  out.add(
      "OpenCL on PoCL, 30/70: sum against one alone (median)", median(together), "%", 98, Better::kHigher);
  out.add("OpenCL on PoCL, what the host can do: the same sum with no guard at all (median)",
          median(unguarded),
          "%",
          0,
          Better::kHigher);
  out.add("OpenCL on PoCL, no competitor: against no guard (median)",
          median(against_none),
          "%",
          98,
          Better::kHigher);
  const auto [least, most] = std::minmax_element(against_none.begin(), against_none.end());
  out.add(
      "OpenCL on PoCL, no competitor: spread over the turns", *most - *least, "points", 0, Better::kLower);
}

// Programs that never have enough in flight to stand at the gate: short kernels, and one kernel at a time.
void shares_of_shallow_work(Rows& out) {
  struct Shape {
    const char* name;
    const char* work;
  };
  for (const Shape shape :
       {Shape{"kernels of 0.1 ms", "cl_tenant --items 4096 --rounds 30 --in-flight 16"},
        Shape{"one kernel at a time", "cl_tenant --items 4096 --rounds 1000 --in-flight 1"}}) {
    std::vector<double> off;
    std::vector<double> together;
    for (int turn = 0; turn < 3; ++turn) {
      const auto pair = thirty_seventy(shape.work);
      const double alone = race({guarded("alone", "--vram 1GiB --compute 100% --mode fair")}, shape.work)[0];
      if (pair[0] + pair[1] == 0 || alone == 0) continue;
      off.push_back(std::abs(pair[0] / (pair[0] + pair[1]) * 100 - 30));
      together.push_back((pair[0] + pair[1]) / alone * 100);
    }
    if (off.empty()) continue;
    const std::string what = std::string("OpenCL on PoCL, 30/70, ") + shape.name;
    out.add(what + ": off by (median)", median(off), "points", 2, Better::kLower);
    out.add(what + ": sum against one alone (median)", median(together), "%", 98, Better::kHigher);
  }
}

std::string output_of(const std::string& command) {
  Program program = start(command);
  std::string all;
  for (std::string line = line_of(program); !line.empty(); line = line_of(program)) all += line;
  finish(program);
  return all;
}

double bytes_in_top(const std::string& name) {
  const std::string top = output_of((build_folder() / "tranche").string() + " guard top --once");
  const auto at = top.find("\n" + name + " ");
  if (at == std::string::npos) return -1;
  char size[32] = "";
  std::sscanf(top.c_str() + at + 1, "%*s %*s %31s", size);
  char* unit = nullptr;
  const double value = std::strtod(size, &unit);
  return value * (*unit == 'K' ? 1024 : *unit == 'M' ? 1048576 : *unit == 'G' ? 1073741824 : 1);
}

void pause(Rows& out) {
  const std::string work = client("cl_steps --steps 100 --mib 64 --step-ms 10");
  const std::string expected = output_of(client("cl_steps --steps 100 --mib 64 --step-ms 0"));
  Program job = start(guarded("paused", "--vram 1GiB --compute 100%") + work);
  std::string told = line_of(job);
  const double before = bytes_in_top("paused");
  const std::string change = (build_folder() / "tranche").string() + " guard limit paused --pause ";
  output_of(change + "on");
  double after = before;
  for (int i = 0; i < 300 && after > before / 20; ++i) {
    ::usleep(50'000);
    after = bytes_in_top("paused");
  }
  output_of(change + "off");
  for (std::string line = line_of(job); !line.empty(); line = line_of(job)) told += line;
  finish(job);
  if (before <= 0) return;
  out.add("OpenCL pause: VRAM given back", (before - after) / before * 100, "%", 95, Better::kHigher);
  out.add("OpenCL pause and resume: result identical", told == expected ? 1 : 0, "", 1, Better::kHigher);
}

// Seconds for each byte: of a copy inside the device, and of a free until the memory can be had again.
struct FreeCost {
  double copy = 0;
  double free = 0;
};

FreeCost free_cost(int mib) {
  const std::string told =
      output_of(guarded("zeroing", "--vram " + std::to_string(3 * mib) + "MiB --compute 100% --mode fair") +
                client("cl_free --seconds 1 --mib " + std::to_string(mib)));
  const double copy = number(told, "copy_bytes_per_s");
  const double free = number(told, "free_bytes_per_s");
  return copy == 0 || free == 0 ? FreeCost{} : FreeCost{1 / copy, 1 / free};
}

// What freeing costs while tenants share the device, and what it costs a tenant that is alone and zeroes
// nothing: the driver gives large memory back to the host, and that alone may take longer than a copy.
void zeroing(Rows& out) {
  constexpr int sizes[] = {1, 16, 64};
  std::vector<FreeCost> alone;
  for (const int mib : sizes) alone.push_back(free_cost(mib));
  Program neighbour = start(guarded("neighbour", "--vram 64MiB --compute 50% --mode fair") +
                            client("cl_steps --steps 100000 --mib 1 --step-ms 200"));
  line_of(neighbour);
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    const FreeCost shared = free_cost(sizes[i]);
    if (shared.copy == 0 || alone[i].copy == 0) continue;
    const std::string size = ", " + std::to_string(sizes[i]) + " MiB: of copy bandwidth";
    const double zeroing = std::max(shared.free - alone[i].free, 0.0);
    out.add("OpenCL zeroing on free while sharing" + size,
            shared.copy / shared.free * 100,
            "%",
            80,
            Better::kHigher);
    out.add("OpenCL the same free with nothing zeroed" + size,
            alone[i].copy / alone[i].free * 100,
            "%",
            0,
            Better::kHigher);
    out.add("OpenCL what zeroing adds to the free" + size + ", time",
            zeroing / shared.copy * 100,
            "%",
            0,
            Better::kLower);
  }
  ::kill(neighbour.pid, SIGTERM);
  finish(neighbour);
}

std::vector<Row> run_opencl() {
  if (!fs::exists(build_folder() / "opencl" / "cl_tenant") || !fs::exists(build_folder() / "tranche")) {
    std::fprintf(stderr, "[skipped] guard-opencl: build the targets tranche and tests/opencl first\n");
    return {};
  }
  Rows out;
  if (wanted("shares")) shares(out);
  if (wanted("shallow")) shares_of_shallow_work(out);
  if (wanted("pause")) pause(out);
  if (wanted("zeroing")) zeroing(out);
  return out.rows;
}

}  // namespace

Suite guard_opencl_suite() {
  return {"guard-opencl", "the guard on a real OpenCL device", run_opencl};
}

}  // namespace tranche::bench
