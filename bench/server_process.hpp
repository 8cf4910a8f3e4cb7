// SPDX-License-Identifier: Apache-2.0
#pragma once
// The built `tranche` beside the benchmark as a server, on a folder of its own that goes with it.
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tranche::bench {

// The built `tranche` with these arguments, its words in a file.
pid_t start_tranche(std::vector<std::string> words, const std::filesystem::path& log_file);
void end_process(pid_t& pid, int signal);  // Until it has; zero: there is none.

struct Finished {  // A whole process, from its fork to the end of its output.
  double milliseconds = 0;
  std::string output{};
};

class ServerProcess {
 public:
  // `command`: server, or up, which brings this machine's own capacity too.
  explicit ServerProcess(std::filesystem::path folder, std::string command = "server")
      : folder_(std::move(folder)), command_(std::move(command)) {}
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  double start();  // Seconds from the start to the open port.
  void stop();
  void kill();  // Without a word.

  static std::filesystem::path binary();
  // `tranche` with these words as its operator types them, its output read as a pipe would. Throws
  // std::runtime_error when it does not end well.
  [[nodiscard]] Finished run(const std::vector<std::string>& words) const;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Of the process, in user and kernel, since it started.
  [[nodiscard]] double cpu_seconds() const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path data() const { return folder_ / "data"; }

 private:
  std::filesystem::path folder_;
  std::string command_;
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
  std::string token_;
};

std::filesystem::path fresh_folder();

}  // namespace tranche::bench
