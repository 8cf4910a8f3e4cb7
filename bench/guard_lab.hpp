// SPDX-License-Identifier: Apache-2.0
#pragma once
// A simulated device, a broker, and tenants on them, each in its own region and PID namespace: what the rows
// of the guard suite are measured on. The stand-in tells what ran; the guard's own figures are never the
// measure.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "guard/broker_client.hpp"

namespace tranche::bench {

enum class Scheduling { kRealTime, kOrdinary };

struct Job {
  std::string program;  // In the stand-in's folder.
  std::vector<std::string> arguments;
  guard::DeviceLimits limits;
  bool guarded = true;
};

// Numbers of the one JSON line that a workload prints, by name.
using Figures = std::map<std::string, double>;

class GuardLab {
 public:
  // `settings` as TRANCHE_STANDIN_SET takes them, e.g. "event_lag=20us".
  GuardLab(std::string settings, Scheduling scheduling);
  ~GuardLab();
  GuardLab(const GuardLab&) = delete;
  GuardLab& operator=(const GuardLab&) = delete;

  // Whether the stand-in, the guard and the rights for PID namespaces are there; `why` says what is missing.
  static bool available(std::string& why);

  // Runs all jobs at once and waits; figures in the order of the jobs, empty where one failed.
  std::vector<Figures> run(const std::vector<Job>& jobs, double start_in_seconds = 1.0);
  // The stand-in's own statistics over the last seconds, as JSON text.
  std::string stats(double seconds);
  // A command with the stand-in's environment and `$BUILD`, `$BROKER`; what it prints.
  std::string shell(const std::string& command);
  [[nodiscard]] std::string broker_socket() const { return folder_ + "/broker"; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  pid_t start(const Job& job, const std::string& socket, std::uint64_t start_ns, int output);
  std::string folder_;
  std::string settings_;
  Scheduling scheduling_;
  pid_t broker_ = -1;
};

// A number of a flat JSON line; -1 when it is not there.
double number_in(const std::string& json, const std::string& name);

guard::DeviceLimits fair(double percent, std::uint32_t priority = 0);
guard::DeviceLimits cap(double percent);

}  // namespace tranche::bench
