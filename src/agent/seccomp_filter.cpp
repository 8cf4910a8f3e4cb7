// SPDX-License-Identifier: Apache-2.0
#include "agent/seccomp_filter.hpp"

#include <cerrno>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <memory>
#include <sched.h>
#include <seccomp.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "agent/files.hpp"

namespace tranche::agent {
namespace {

struct Release {
  void operator()(void* context) const { ::seccomp_release(context); }
};

void refuse_always(scmp_filter_ctx context, std::string_view name) {
  const int call = ::seccomp_syscall_resolve_name(std::string(name).c_str());
  if (call == __NR_SCMP_ERROR) return;  // Newer than this libseccomp: the number is not known to it.
  const int failed = ::seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), call, 0);
  if (failed != 0 && failed != -EACCES && failed != -EDOM)
    throw std::runtime_error("libseccomp refused a rule for " + std::string(name));
}

void refuse_use(scmp_filter_ctx context, const RefusedUse& use) {
  const int call = ::seccomp_syscall_resolve_name(std::string(use.call).c_str());
  const scmp_arg_cmp argument{
      .arg = use.index, .op = SCMP_CMP_MASKED_EQ, .datum_a = use.mask, .datum_b = use.value};
  const auto action = SCMP_ACT_ERRNO(static_cast<std::uint16_t>(use.error));
  const int failed = use.mask == 0 ? ::seccomp_rule_add(context, action, call, 0)
                                   : ::seccomp_rule_add(context, action, call, 1, argument);
  if (failed != 0) throw std::runtime_error("libseccomp refused a rule for " + std::string(use.call));
}

}  // namespace

const std::vector<std::string_view>& refused_calls() {
  static const std::vector<std::string_view> kCalls = {"keyctl",
                                                       "add_key",
                                                       "request_key",
                                                       "ptrace",
                                                       "process_vm_readv",
                                                       "process_vm_writev",
                                                       "kcmp",
                                                       "pidfd_getfd",
                                                       "process_madvise",
                                                       "bpf",
                                                       "perf_event_open",
                                                       "userfaultfd",
                                                       "io_uring_setup",
                                                       "io_uring_enter",
                                                       "io_uring_register",
                                                       "mount",
                                                       "umount",
                                                       "umount2",
                                                       "pivot_root",
                                                       "chroot",
                                                       "move_mount",
                                                       "open_tree",
                                                       "fsopen",
                                                       "fsconfig",
                                                       "fsmount",
                                                       "fspick",
                                                       "mount_setattr",
                                                       "unshare",
                                                       "setns",
                                                       "kexec_load",
                                                       "kexec_file_load",
                                                       "init_module",
                                                       "finit_module",
                                                       "delete_module",
                                                       "create_module",
                                                       "query_module",
                                                       "get_kernel_syms",
                                                       "open_by_handle_at",
                                                       "name_to_handle_at",
                                                       "reboot",
                                                       "swapon",
                                                       "swapoff",
                                                       "acct",
                                                       "quotactl",
                                                       "quotactl_fd",
                                                       "settimeofday",
                                                       "clock_settime",
                                                       "clock_adjtime",
                                                       "adjtimex",
                                                       "stime",
                                                       "sethostname",
                                                       "setdomainname",
                                                       "syslog",
                                                       "iopl",
                                                       "ioperm",
                                                       "modify_ldt",
                                                       "vm86",
                                                       "vm86old",
                                                       "lookup_dcookie",
                                                       "nfsservctl",
                                                       "uselib",
                                                       "ustat",
                                                       "sysfs",
                                                       "_sysctl",
                                                       "personality",
                                                       "move_pages",
                                                       "fanotify_init",
                                                       "vhangup",
                                                       "lsm_set_self_attr",
                                                       "memfd_secret"};
  return kCalls;
}

const std::vector<RefusedUse>& refused_uses() {
  static const std::vector<RefusedUse> kUses = [] {
    constexpr std::uint64_t kAll = 0xFFFFFFFFUL;
    const auto bits = [](int value) { return static_cast<std::uint64_t>(static_cast<unsigned>(value)); };
    std::vector<RefusedUse> uses;
    for (const int space : {CLONE_NEWUSER,
                            CLONE_NEWNS,
                            CLONE_NEWPID,
                            CLONE_NEWNET,
                            CLONE_NEWIPC,
                            CLONE_NEWUTS,
                            CLONE_NEWCGROUP})
      uses.push_back({"clone", 0, bits(space), bits(space), EPERM});
    // Its flags are behind a pointer that a filter cannot read. ENOSYS makes the C library fall back to
    // clone.
    uses.push_back({"clone3", 0, 0, 0, ENOSYS});
    // Typing into the terminal that started us.
    uses.push_back({"ioctl", 1, kAll, TIOCSTI, EPERM});
    uses.push_back({"ioctl", 1, kAll, TIOCLINUX, EPERM});
    // Families whose kernel code has a long history of holes and that no accelerator job needs.
    for (const int family :
         {AF_PACKET, AF_VSOCK, AF_ALG, AF_BLUETOOTH, AF_TIPC, AF_RDS, AF_CAN, AF_X25, AF_AX25})
      uses.push_back({"socket", 0, kAll, bits(family), EAFNOSUPPORT});
    return uses;
  }();
  return kUses;
}

std::string seccomp_program() {
  const std::unique_ptr<void, Release> context(::seccomp_init(SCMP_ACT_ALLOW));
  if (!context) throw std::runtime_error("libseccomp has no memory");
  // A call through another architecture's table (int 0x80) would not match our numbers: end the caller.
  ::seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  ::seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  for (const std::string_view name : refused_calls()) refuse_always(context.get(), name);
  for (const RefusedUse& use : refused_uses()) refuse_use(context.get(), use);
  const Descriptor file = memory_file("seccomp", {});
  if (::seccomp_export_bpf(context.get(), file.get()) != 0)
    throw std::runtime_error("libseccomp cannot write its filter");
  return read_descriptor(file.get());
}

bool load_seccomp_program(std::string_view program) {
  std::vector<sock_filter> steps(program.size() / sizeof(sock_filter));
  program.copy(reinterpret_cast<char*>(steps.data()), steps.size() * sizeof(sock_filter));
  const sock_fprog filter{.len = static_cast<unsigned short>(steps.size()), .filter = steps.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

}  // namespace tranche::agent
