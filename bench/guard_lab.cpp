// SPDX-License-Identifier: Apache-2.0
#include "bench/guard_lab.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/broker.hpp"
#include "guard/host_clock.hpp"

namespace tranche::bench {
namespace {

constexpr std::uint64_t kJobMaxNs = 60'000'000'000;  // Jobs run for seconds; no host is that slow.
constexpr int kScriptMaxSeconds = 90;

std::filesystem::path build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

// "name": number pairs of one flat JSON object.
Figures parse(const std::string& text) {
  Figures figures;
  for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at)) {
    const std::size_t end = text.find('"', at + 1);
    if (end == std::string::npos) break;
    const std::string name = text.substr(at + 1, end - at - 1);
    std::size_t value = end + 1;
    while (value < text.size() && (text[value] == ':' || text[value] == ' ')) ++value;
    if (value < text.size() &&
        (std::isdigit(static_cast<unsigned char>(text[value])) != 0 || text[value] == '-'))
      figures[name] = std::atof(text.c_str() + value);
    at = end + 1;
  }
  return figures;
}

// Until its end, or until `deadline_ns`: a job that hangs must not hang the suite.
std::string read_all(int fd, std::uint64_t deadline_ns) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const std::uint64_t now = guard::monotonic_ns();
    const std::uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / 1'000'000 + 1 : 0;
    pollfd readable{fd, POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>(left_ms)) <= 0) return text;
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

void go_real_time() {
  sched_param parameters{};
  parameters.sched_priority = 1;
  ::sched_setscheduler(0, SCHED_RR, &parameters);
}

}  // namespace

guard::DeviceLimits fair(double percent, std::uint32_t priority) {
  guard::DeviceLimits limits;
  limits.vram_bytes = 4ULL << 30;
  limits.share = static_cast<std::uint32_t>(percent * 100);
  limits.mode = guard::ShareMode::kFair;
  limits.priority = priority;
  return limits;
}

guard::DeviceLimits cap(double percent) {
  guard::DeviceLimits limits = fair(percent);
  limits.mode = guard::ShareMode::kCap;
  return limits;
}

bool GuardLab::available(std::string& why) {
  const auto folder = build_folder();
  for (const char* part : {"standin/tenant", "standin/libcuda.so.1", "libtranche-guard.so"}) {
    if (std::filesystem::exists(folder / part)) continue;
    why = std::string(part) + " is not built";
    return false;
  }
  if (::geteuid() == 0) return true;
  why = "PID namespaces need root";
  return false;
}

GuardLab::GuardLab(std::string settings, Scheduling scheduling)
    : settings_(std::move(settings)), scheduling_(scheduling) {
  char folder[] = "/tmp/tranche-bench-XXXXXX";
  if (::mkdtemp(folder) == nullptr) std::abort();
  folder_ = folder;
  broker_ = ::fork();
  if (broker_ == 0) {
    guard::BrokerOptions options;
    options.socket_path = folder_ + "/broker";
    guard::Broker broker(options);
    broker.listen();
    broker.run();
    ::_exit(0);
  }
  for (int i = 0; i < 500 && !guard::BrokerClient::answers(folder_ + "/broker"); ++i) ::usleep(10'000);
}

GuardLab::~GuardLab() {
  ::kill(broker_, SIGKILL);
  ::waitpid(broker_, nullptr, 0);
  std::filesystem::remove_all(folder_);
}

// The child of unshare() is process 1 of its own namespace.
pid_t GuardLab::start(const Job& job, const std::string& socket, std::uint64_t start_ns, int output) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::dup2(output, STDOUT_FILENO);
  if (::unshare(CLONE_NEWPID) != 0) ::_exit(126);
  const pid_t inner = ::fork();
  if (inner != 0) {
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 125);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (scheduling_ == Scheduling::kRealTime) go_real_time();
  const std::string folder = build_folder();
  ::setenv("TRANCHE_STANDIN", (folder_ + "/device").c_str(), 1);
  ::setenv("TRANCHE_STANDIN_SET", settings_.c_str(), 1);
  ::setenv("LD_LIBRARY_PATH", (folder + "/standin").c_str(), 1);
  if (job.guarded) {
    ::setenv("TRANCHE_GUARD_SOCKET", socket.c_str(), 1);
    ::setenv("LD_PRELOAD", (folder + "/libtranche-guard.so").c_str(), 1);
  }
  std::vector<std::string> words = {folder + "/standin/" + job.program};
  words.insert(words.end(), job.arguments.begin(), job.arguments.end());
  words.insert(words.end(), {"--start-ns", std::to_string(start_ns)});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

std::vector<Figures> GuardLab::run(const std::vector<Job>& jobs, double start_in_seconds) {
  guard::BrokerClient broker(folder_ + "/broker");
  std::vector<std::unique_ptr<guard::TenantRegions>> regions;
  std::vector<int> outputs;
  std::vector<pid_t> children;
  const std::uint64_t start_ns = guard::monotonic_ns() + static_cast<std::uint64_t>(start_in_seconds * 1e9);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string socket = folder_ + "/tenant" + std::to_string(i);
    if (jobs[i].guarded) {
      guard::TenantLimits limits;
      limits.device_count = 1;
      limits.devices[0] = jobs[i].limits;
      regions.push_back(broker.create_tenant("tenant" + std::to_string(i), limits, socket));
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    children.push_back(start(jobs[i], socket, start_ns, ends[1]));
    ::close(ends[1]);
    outputs.push_back(ends[0]);
  }
  std::vector<Figures> figures;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    figures.push_back(parse(read_all(outputs[i], start_ns + kJobMaxNs)));
    ::close(outputs[i]);
    if (guard::monotonic_ns() >= start_ns + kJobMaxNs) ::kill(children[i], SIGKILL);  // Takes its job along.
    ::waitpid(children[i], nullptr, 0);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].guarded) broker.remove_tenant("tenant" + std::to_string(i));
  return figures;
}

double number_in(const std::string& json, const std::string& name) {
  const Figures figures = parse(json);
  const auto found = figures.find(name);
  return found == figures.end() ? -1 : found->second;
}

std::string GuardLab::stats(double seconds) {
  return shell("$BUILD/standin/standin_stats " + std::to_string(seconds));
}

std::string GuardLab::shell(const std::string& script) {
  const std::string build = build_folder();
  std::ofstream(folder_ + "/script") << "export BUILD=" << build << " BROKER=" << broker_socket()
                                     << " TRANCHE_STANDIN=" << folder_ << "/device LD_LIBRARY_PATH=" << build
                                     << "/standin TRANCHE_STANDIN_SET=" << settings_ << "\ncd " << folder_
                                     << "\n"
                                     << script << "\n";
  const std::string command =
      "timeout -k 5 " + std::to_string(kScriptMaxSeconds) + " sh " + folder_ + "/script";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text =
      read_all(::fileno(pipe), guard::monotonic_ns() + (kScriptMaxSeconds + 10) * 1'000'000'000ULL);
  ::pclose(pipe);
  return text;
}

}  // namespace tranche::bench
