// SPDX-License-Identifier: Apache-2.0
#include "gpu/mps_control.hpp"

#include <filesystem>

#include "gpu/child_program.hpp"

namespace tranche::gpu {
namespace {

constexpr const char* kDaemon = "nvidia-cuda-mps-control";

Result<void, std::string> control(const std::string& uuid,
                                  const std::string& root,
                                  std::vector<std::string> arguments,
                                  const std::string& input) {
  const std::string program = find_program(kDaemon);
  if (program.empty())
    return refuse(std::string(kDaemon) + " is not installed: share this device under the guard instead");
  arguments.insert(arguments.begin(), program);
  const ProgramEnd end =
      run_program({.command = std::move(arguments),
                   .environment = {{"CUDA_VISIBLE_DEVICES", uuid},
                                   {"CUDA_MPS_PIPE_DIRECTORY", mps_pipe_folder(uuid, root)},
                                   {"CUDA_MPS_LOG_DIRECTORY", root + "/" + uuid + "/log"}},
                   .input = input,
                   .limit = std::chrono::seconds(20)});
  if (end.started && !end.timed_out && end.exit_code == 0) return {};
  return refuse(std::string(kDaemon) + " failed: " + end.output.substr(0, 200));
}

}  // namespace

bool is_mps_installed() {
  return !find_program(kDaemon).empty();
}

std::string mps_pipe_folder(const std::string& uuid, const std::string& root) {
  return root + "/" + uuid + "/pipe";
}

Result<void, std::string> start_mps(const std::string& uuid, const std::string& root) {
  if (!is_mps_installed()) return control(uuid, root, {}, {});
  std::error_code error;
  std::filesystem::create_directories(mps_pipe_folder(uuid, root), error);
  if (!error) std::filesystem::create_directories(root + "/" + uuid + "/log", error);
  if (error) return refuse("cannot make the folder of the MPS daemon: " + error.message());
  return control(uuid, root, {"-d"}, {});
}

Result<void, std::string> stop_mps(const std::string& uuid, const std::string& root) {
  return control(uuid, root, {}, "quit\n");
}

}  // namespace tranche::gpu
