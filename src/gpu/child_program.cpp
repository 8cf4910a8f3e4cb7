// SPDX-License-Identifier: Apache-2.0
#include "gpu/child_program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace tranche::gpu {
namespace {

constexpr std::size_t kOutputMax = std::size_t{1} << 20;
using Clock = std::chrono::steady_clock;

std::vector<std::string> environment_of(const ProgramStart& start) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (!start.environment.contains(text.substr(0, text.find('=')))) out.push_back(text);
  }
  for (const auto& [name, value] : start.environment) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

pid_t spawn(const ProgramStart& start, int input, int output) {
  std::vector<std::string> command = start.command, environment = environment_of(start);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // So that its children end with it.
  pid_t child = -1;
  const int error = ::posix_spawnp(&child,
                                   command[0].c_str(),
                                   &actions,
                                   &attributes,
                                   pointers_to(command).data(),
                                   pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : -1;
}

// Until the tool closes its output, or the time is over.
bool read_all(int output, Clock::time_point deadline, std::string& text) {
  std::array<char, 8192> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{.fd = output, .events = POLLIN, .revents = 0};
    const int ready = left <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(std::min<long>(left, 1 << 30)));
    if (ready == 0) return false;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t count = ::read(output, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    const std::size_t room = kOutputMax - std::min(kOutputMax, text.size());
    text.append(buffer.data(), std::min(static_cast<std::size_t>(count), room));
  }
}

}  // namespace

ProgramEnd run_program(const ProgramStart& start) {
  ProgramEnd end;
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0) return end;
  if (::pipe2(out, O_CLOEXEC) != 0) {
    ::close(in[0]);
    ::close(in[1]);
    return end;
  }
  // What we say to tools is shorter than a pipe holds, so this cannot block; and said before there is a tool,
  // it cannot break on one that ends without listening.
  const bool said = start.input.empty() || ::write(in[1], start.input.data(), start.input.size()) > 0;
  const pid_t child = said ? spawn(start, in[0], out[1]) : -1;
  ::close(in[0]);
  ::close(in[1]);
  ::close(out[1]);
  if (child > 0) {
    end.started = true;
    end.timed_out = !read_all(out[0], Clock::now() + start.limit, end.output);
    if (end.timed_out) ::kill(-child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end.exit_signal = WTERMSIG(status);
  }
  ::close(out[0]);
  return end;
}

std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/usr/local/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

}  // namespace tranche::gpu
