// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_rights.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <linux/capability.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/files.hpp"

namespace tranche::agent {

bool drop_capabilities() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

void limit_resources(const SandboxPlan& plan) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (plan.disk_bytes != 0) {
    std::uint64_t most = plan.disk_bytes;
    for (const VolumeWatch& volume : plan.volumes) most = std::max(most, volume.bytes);
    const rlimit file{most, most};  // Between two looks at the disk, one file's worth.
    ::setrlimit(RLIMIT_FSIZE, &file);
  }
}

void unblock_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // What the agent's processes ignore, a job must hear: an ignored signal cannot even be trapped by a shell.
  for (int signal = 1; signal < NSIG; ++signal)
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
}

void close_others(const std::vector<int>& kept) {
  std::vector<unsigned> open(kept.begin(), kept.end());
  std::sort(open.begin(), open.end());
  unsigned next = 3;
  for (const unsigned descriptor : open) {
    if (descriptor > next) ::syscall(SYS_close_range, next, descriptor - 1, 0U);
    next = descriptor + 1;
    ::fcntl(static_cast<int>(descriptor), F_SETFD, 0);
  }
  ::syscall(SYS_close_range, next, ~0U, 0U);
}

void hide_arguments(std::string_view instead) {
  const Descriptor file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  const std::string stat = file.open() ? read_descriptor(file.get()) : "";
  std::istringstream words(stat.substr(std::min(stat.size(), stat.rfind(')') + 2)));
  std::string skipped;
  constexpr int kBetween = 45;  // From the state (3) to where the arguments begin (48).
  for (int field = 0; field < kBetween; ++field) words >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(words >> begin >> end) || end <= begin) return;
  char* const arguments = reinterpret_cast<char*>(begin);
  const std::size_t room = end - begin;
  std::memset(arguments, 0, room);
  instead.copy(arguments, room - 1);
}

void signal_process(int pid, int signal) {
  if (pid > 1) ::kill(pid, signal);
}

std::vector<char*> exec_words(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace tranche::agent
