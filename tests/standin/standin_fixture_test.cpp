// SPDX-License-Identifier: Apache-2.0
#include "standin_fixture.hpp"

#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace standin_test {
namespace {

struct Directories {
  std::vector<std::filesystem::path> made;
  ~Directories() {
    std::error_code ignored;
    for (const auto& path : made) std::filesystem::remove_all(path, ignored);
  }
};

Directories& directories() {
  static Directories all;
  return all;
}

}  // namespace

std::string fresh_state(const std::string& settings) {
  const bool shared_memory = std::filesystem::is_directory("/dev/shm");
  std::string name = std::string(shared_memory ? "/dev/shm" : "/tmp") + "/tranche-standin-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  directories().made.emplace_back(name);
  std::ofstream(name + "/device.conf") << settings;
  return name + "/device";
}

CUcontext device() {
  static CUcontext const context = [] {
    const std::string state =
        fresh_state("vram = 256MiB\ncontext = 8MiB\nevent_lag = 5ms\nmig = 0:3g.40gb@4\n");
    ::setenv("TRANCHE_STANDIN", state.c_str(), 1);
    CUcontext made = nullptr;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate_v2(&made, 0, 0) == CUDA_SUCCESS);
    return made;
  }();
  return context;
}

CUfunction kernel(const std::string& name) {
  device();
  static CUmodule const module = [] {
    CUmodule made = nullptr;
    REQUIRE(cuModuleLoadData(&made, "any") == CUDA_SUCCESS);
    return made;
  }();
  CUfunction function = nullptr;
  REQUIRE(cuModuleGetFunction(&function, module, name.c_str()) == CUDA_SUCCESS);
  return function;
}

CUstream new_stream(unsigned flags) {
  device();
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, flags) == CUDA_SUCCESS);
  return stream;
}

CUevent new_event() {
  device();
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  return event;
}

void launch(CUfunction function, CUstream stream, void** arguments) {
  REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr) == CUDA_SUCCESS);
}

double elapsed_ms(CUevent from, CUevent to) {
  float milliseconds = 0;
  REQUIRE(cuEventSynchronize(from) == CUDA_SUCCESS);
  REQUIRE(cuEventSynchronize(to) == CUDA_SUCCESS);
  REQUIRE(cuEventElapsedTime(&milliseconds, from, to) == CUDA_SUCCESS);
  return static_cast<double>(milliseconds);
}

std::size_t free_bytes() {
  std::size_t free = 0;
  REQUIRE(cuMemGetInfo_v2(&free, nullptr) == CUDA_SUCCESS);
  return free;
}

Outcome run(const std::string& state, const std::string& command) {
  Outcome outcome;
  const std::string line = "TRANCHE_STANDIN='" + state + "' ASAN_OPTIONS=verify_asan_link_order=0 " +
                           STANDIN_BINARY_DIR + "/" + command;
  std::FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) outcome.text += buffer;
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

double number(const std::string& json, const std::string& name) {
  const auto at = json.find("\"" + name + "\":");
  return at == std::string::npos ? -1 : std::strtod(json.c_str() + at + name.size() + 3, nullptr);
}

}  // namespace standin_test
