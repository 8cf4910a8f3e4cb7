// SPDX-License-Identifier: Apache-2.0
#include "gpu/mps_control.hpp"

#include <filesystem>

#include "gpu/child_program.hpp"

namespace tranche::gpu {
namespace {

constexpr const char* kDaemon = "nvidia-cuda-mps-control";

struct Daemon {
  std::string uuid, pipes, logs;
};

Daemon daemon_of(const std::string& uuid, const std::string& group, const std::string& root) {
  return {uuid, mps_pipe_folder(uuid, group, root), root + "/" + uuid + "/" + group + "/log"};
}

Result<void, std::string> control(const Daemon& daemon,
                                  std::vector<std::string> arguments,
                                  const char* input) {
  const std::string program = find_program(kDaemon);
  if (program.empty())
    return refuse(std::string(kDaemon) + " is not installed: share this device under the guard instead");
  arguments.insert(arguments.begin(), program);
  const ProgramEnd end = run_program({.command = std::move(arguments),
                                      .environment = {{"CUDA_VISIBLE_DEVICES", daemon.uuid},
                                                      {"CUDA_MPS_PIPE_DIRECTORY", daemon.pipes},
                                                      {"CUDA_MPS_LOG_DIRECTORY", daemon.logs}},
                                      .input = input,
                                      .limit = std::chrono::seconds(20)});
  if (end.started && !end.timed_out && end.exit_code == 0) return {};
  return refuse(std::string(kDaemon) + " failed: " + end.output.substr(0, 200));
}

bool answers(const Daemon& daemon) {
  return std::filesystem::exists(daemon.pipes) && control(daemon, {}, "get_server_list\n");
}

}  // namespace

bool is_mps_installed() {
  return !find_program(kDaemon).empty();
}

std::string mps_pipe_folder(const std::string& uuid, const std::string& group, const std::string& root) {
  return root + "/" + uuid + "/" + group + "/pipe";
}

Result<void, std::string> start_mps(const std::string& uuid,
                                    const std::string& group,
                                    const std::string& root) {
  const Daemon daemon = daemon_of(uuid, group, root);
  if (!is_mps_installed()) return control(daemon, {}, "");
  std::error_code error;
  std::filesystem::create_directories(daemon.pipes, error);
  if (!error) std::filesystem::create_directories(daemon.logs, error);
  if (error) return refuse("cannot make the folder of the MPS daemon: " + error.message());
  if (answers(daemon)) return {};
  return control(daemon, {"-d"}, "");
}

Result<void, std::string> stop_mps(const std::string& uuid,
                                   const std::string& group,
                                   const std::string& root) {
  const Daemon daemon = daemon_of(uuid, group, root);
  if (is_mps_installed() && !answers(daemon)) return {};
  return control(daemon, {}, "quit\n");
}

}  // namespace tranche::gpu
