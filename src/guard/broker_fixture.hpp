// SPDX-License-Identifier: Apache-2.0
#pragma once
// A broker in a process of its own, and jobs that join it, for the tests of both sides.
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/broker.hpp"
#include "guard/broker_client.hpp"
#include "guard/front.hpp"
#include "guard/session.hpp"

namespace tranche::guard {

struct BrokerProcess {
  std::string folder = "/tmp/tranche-broker-test-XXXXXX";
  pid_t pid = -1;
  BrokerProcess() {
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    begin();
  }
  void begin() {
    pid = ::fork();
    if (pid == 0) {
      BrokerOptions options;
      options.socket_path = socket();
      options.real_time = false;
      Broker broker(options);
      broker.listen();
      broker.run();
      ::_exit(0);
    }
    for (int i = 0; i < 1000 && !BrokerClient::answers(socket()); ++i) ::usleep(5'000);
  }
  void die() const {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ~BrokerProcess() {
    die();
    static_cast<void>(std::system(("rm -rf " + folder).c_str()));
  }
  [[nodiscard]] std::string socket() const { return folder + "/broker"; }
  [[nodiscard]] std::string tenant(int n) const { return folder + "/tenant" + std::to_string(n); }
};

inline TenantLimits limits_of(std::uint64_t vram) {
  TenantLimits limits;
  limits.device_count = 1;
  limits.devices[0].vram_bytes = vram;
  limits.devices[0].mode = ShareMode::kFair;
  limits.devices[0].share = 5000;
  return limits;
}

// Runs `act` in a child that joins through `socket`; returns its exit code.
template <class Act>
pid_t child_of(const std::string& socket, bool own_namespace, Act act) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setenv(kSocketVariable, socket.c_str(), 1);
  if (own_namespace && ::unshare(CLONE_NEWPID) == 0) {
    const pid_t inner = ::fork();
    if (inner != 0) {
      int status = 0;
      ::waitpid(inner, &status, 0);
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
  }
  ::_exit(attach() == Attachment::kAttached ? act() : 98);
}
inline int code_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// Until `holds`, at most ten seconds; a fact that never comes true fails the test.
template <class Test>
bool eventually(Test holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds()) return true;
    ::usleep(5'000);
  }
  return false;
}

}  // namespace tranche::guard
