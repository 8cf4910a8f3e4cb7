// SPDX-License-Identifier: Apache-2.0
#pragma once
// The supervisor of one lease: a small process of its own that outlives the agent. It holds the sandbox,
// keeps output, enforces time limit, disk quota and the lease's expiry by itself, and writes down how it
// ended.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/cgroup.hpp"
#include "agent/file_watch.hpp"
#include "agent/host_time.hpp"
#include "agent/job_network.hpp"
#include "agent/lease_page.hpp"
#include "agent/sandbox_launch.hpp"
#include "agent/sandbox_plan.hpp"
#include "agent/shim_messages.hpp"
#include "agent/shim_output.hpp"

namespace tranche::agent {

// What every supervisor of an agent shares, made before the first is forked.
struct ShimWorld {
  std::string bubblewrap{};  // For an agent that is not root.
  std::string runtime{};     // For jobs with an image; empty: they are started like all others.
  std::string seccomp{};     // The filter.
  NetworkTools network{};
  std::shared_ptr<Cgroups> cgroups{};
  Duration kill_patience = std::chrono::seconds(10);  // After SIGKILL, until it counts as stuck.
  Duration disk_watch_every = std::chrono::seconds(1);
};

class Supervisor {
 public:
  Supervisor(const ShimWorld& world, SandboxPlan plan, PreparedNamespaces prepared = {});
  // Until the job's end is written down. False: something of the job may be left.
  bool run();

 private:
  struct Session {
    std::uint64_t id = 0;
    int pid = -1;
  };
  // The exit status of the step, as waitpid tells it.
  int run_step(const std::string& text, JobPhase phase);
  [[nodiscard]] std::vector<Bind> binds_of_step() const;
  void start(const std::string& text);
  void begin_network(Descriptor go);
  void end_network();
  [[noreturn]] void become_bubblewrap(const SandboxLaunch& launch);
  [[nodiscard]] bool launched_by_root() const { return plan_.uid != 0; }
  [[nodiscard]] bool in_container() const {
    return launched_by_root() && !plan_.rootfs.empty() && !world_.runtime.empty();
  }
  void serve(bool& ended, int& status);
  void take_signals(bool& ended, int& status);
  void listen(BootTime now);
  void take_orders();
  void take_beginning();
  void take_output();
  void take_info();
  void follow(const ShimOrder& order, std::array<int, 4>& descriptors);
  void open_session(const ShimOrder& order, std::array<int, 4>& descriptors);
  void check_clocks();
  void watch_disk(BootTime now);
  void watch_volumes();
  void watch_processes();
  void note_behaviour();
  void note_peers();
  void note_files();
  [[nodiscard]] int wait_milliseconds() const;
  void stop_job(wire::EndReason reason, BootTime grace, const std::string& why);
  void kill_job(wire::EndReason reason, const std::string& why);
  bool signal_all(int signal);  // Whether there was anybody to hear it.
  void pause(bool paused);
  bool end_leftovers();
  bool clean_up(int status, bool setup_failed);
  void set_phase(JobPhase phase);
  void tell(const ShimNote& note);
  void ring_for_output();
  void say(const std::string& line);  // Into the platform's stream.

  const ShimWorld& world_;
  SandboxPlan plan_;
  PreparedNamespaces prepared_;
  MappedLeasePage page_;
  std::string group_;
  Descriptor orders_;
  Descriptor signals_;
  Descriptor info_;
  Descriptor ready_;
  ShimOutput stdout_, stderr_, platform_;
  std::string info_text_;
  JobPhase step_phase_ = JobPhase::kPreparing;
  int child_ = -1;
  JobNetwork network_;
  std::uint64_t network_before_ = 0;  // Bytes of earlier steps.
  BootTime began_ = 0;                // The first step; the time limit counts from here.
  BootTime kill_at_ = 0;              // End of a grace.
  BootTime killed_at_ = 0;            // SIGKILL was sent.
  BootTime disk_next_ = 0;
  BootTime listen_at_ = 0;  // Zero: it listens.
  wire::EndReason reason_ = wire::EndReason::kNone;
  bool warned_ = false;
  bool paused_ = false;
  BootTime paused_since_ = 0;
  std::string message_;
  std::vector<Session> sessions_;
  std::vector<std::uint64_t> volume_bytes_;  // As the job found them.
  std::uint32_t outputs_seen_ = 0;
  FileWatch files_;
};

}  // namespace tranche::agent
