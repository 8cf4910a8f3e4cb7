// SPDX-License-Identifier: Apache-2.0
#include "bench/server_process.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

pid_t start_tranche(std::vector<std::string> words, const std::filesystem::path& log_file) {
  const std::string binary = ServerProcess::binary().string();
  words.insert(words.begin(), "tranche");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("the machine has no room for another process");
  if (pid > 0) return pid;
  const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::execv(binary.c_str(), arguments.data());
  ::_exit(127);
}

void end_process(pid_t& pid, int signal) {
  if (pid <= 0) return;
  ::kill(pid, signal);
  ::waitpid(pid, nullptr, 0);
  pid = 0;
}

ServerProcess::~ServerProcess() {
  stop();
  std::filesystem::remove_all(folder_);
}

double ServerProcess::start() {
  const auto port_file = folder_ / "port";
  std::filesystem::create_directories(folder_);
  std::filesystem::remove(port_file);
  const auto begin = Clock::now();
  std::vector<std::string> words{
      command_, "--data", data().string(), "--listen", "127.0.0.1:0", "--port-file", port_file.string()};
  // The machine's own devices: what is measured here is not their test before first use.
  if (command_ == "up") words.insert(words.end(), {"--acceptance", "quick"});
  pid_ = start_tranche(std::move(words), folder_ / "log");
  while (!std::filesystem::exists(port_file)) {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0 || seconds_since(begin) > 120) {
      throw std::runtime_error("the server did not start; is `tranche` built beside tranche-bench?");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const double ready = seconds_since(begin);
  port_ = static_cast<std::uint16_t>(std::stoul(first_line(port_file)));
  token_ = first_line(folder_ / "data" / "operator.token");
  return ready;
}

void ServerProcess::stop() {
  end_process(pid_, SIGTERM);
}

void ServerProcess::kill() {
  end_process(pid_, SIGKILL);
}

double ServerProcess::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string all((std::istreambuf_iterator<char>(file)), {});
  std::istringstream words(all.substr(all.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) words >> skipped;
  std::uint64_t user = 0, kernel = 0;
  words >> user >> kernel;
  return static_cast<double>(user + kernel) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

Finished ServerProcess::run(const std::vector<std::string>& words) const {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe");
  const std::string url = "TRANCHE_URL=http://127.0.0.1:" + std::to_string(port_);
  const std::string token = "TRANCHE_TOKEN=" + token_;
  const std::string home = "HOME=" + folder_.string();
  const std::array<const char*, 4> environment{url.c_str(), token.c_str(), home.c_str(), nullptr};
  const std::string program = binary().string();
  std::vector<const char*> arguments{"tranche"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  arguments.push_back(nullptr);
  const auto begin = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], 1);
    ::close(pipe[0]);
    ::close(pipe[1]);
    ::execve(program.c_str(),
             const_cast<char* const*>(arguments.data()),     // NOLINT: exec changes neither.
             const_cast<char* const*>(environment.data()));  // NOLINT
    ::_exit(127);
  }
  ::close(pipe[1]);
  Finished finished;
  std::array<char, 65536> piece{};
  for (ssize_t got = 0; (got = ::read(pipe[0], piece.data(), piece.size())) > 0;)
    finished.output.append(piece.data(), static_cast<std::size_t>(got));
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  finished.milliseconds = seconds_since(begin) * 1000;
  if (status != 0) throw std::runtime_error("tranche ended with status " + std::to_string(status));
  return finished;
}

std::filesystem::path ServerProcess::binary() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tranche";
}

std::filesystem::path fresh_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tranche-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for the benchmark's data");
  return pattern;
}

}  // namespace tranche::bench
