// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup_devices.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <optional>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/descriptor.hpp"

namespace tranche::agent {
namespace {

struct DeviceRule {
  std::int32_t major = 0;
  std::optional<std::int32_t> minor{};  // Nothing: all of them.
};

std::optional<DeviceRule> parsed(const std::string& text) {
  int major = 0, minor = 0;
  if (std::sscanf(text.c_str(), "c %d:%d", &major, &minor) == 2) return DeviceRule{major, minor};
  if (std::sscanf(text.c_str(), "c %d:*", &major) == 1) return DeviceRule{major, std::nullopt};
  return std::nullopt;
}

// Instructions of the kernel's own machine, as far as they are needed here. Register 1 leads to the question.
class Program {
 public:
  void load(std::uint8_t to, std::int16_t offset) { add(BPF_LDX | BPF_MEM | BPF_W, to, 1, offset, 0); }
  void keep_bits(std::uint8_t of, std::int32_t mask) { add(BPF_ALU | BPF_AND | BPF_K, of, 0, 0, mask); }
  void shift_right(std::uint8_t of, std::int32_t by) { add(BPF_ALU | BPF_RSH | BPF_K, of, 0, 0, by); }
  void skip_unless(std::uint8_t is, std::int32_t value, std::int16_t steps) {
    add(BPF_JMP | BPF_JNE | BPF_K, is, 0, steps, value);
  }
  void skip_if_none(std::uint8_t of, std::int32_t bits, std::int16_t steps) {
    add(BPF_JMP | BPF_JSET | BPF_K, of, 0, 1, bits);  // Some are set: on with the next but one.
    add(BPF_JMP | BPF_JA, 0, 0, steps, 0);
  }
  void answer(std::int32_t value) {
    add(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, value);
    add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  }
  [[nodiscard]] Descriptor loaded() const {
    static constexpr char kLicense[] = "Apache-2.0";
    union bpf_attr what{};
    what.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    what.expected_attach_type = BPF_CGROUP_DEVICE;
    what.insn_cnt = static_cast<std::uint32_t>(steps_.size());
    what.insns = reinterpret_cast<std::uintptr_t>(steps_.data());
    what.license = reinterpret_cast<std::uintptr_t>(kLicense);
    return Descriptor(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &what, sizeof what)));
  }

 private:
  void add(int code, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t value) {
    bpf_insn step{};
    step.code = static_cast<std::uint8_t>(code);
    step.dst_reg = to & 0xFU;
    step.src_reg = from & 0xFU;
    step.off = offset;
    step.imm = value;
    steps_.push_back(step);
  }
  std::vector<bpf_insn> steps_;
};

Program program_for(const std::vector<DeviceRule>& rules) {
  constexpr std::uint8_t kKind = 2, kAccess = 3, kMajor = 4, kMinor = 5;
  Program program;
  program.load(kKind, offsetof(bpf_cgroup_dev_ctx, access_type));
  program.load(kAccess, offsetof(bpf_cgroup_dev_ctx, access_type));
  program.load(kMajor, offsetof(bpf_cgroup_dev_ctx, major));
  program.load(kMinor, offsetof(bpf_cgroup_dev_ctx, minor));
  program.keep_bits(kKind, 0xFFFF);
  program.shift_right(kAccess, 16);
  program.skip_unless(kKind, BPF_DEVCG_DEV_CHAR, 2);  // To the no below.
  program.skip_if_none(kAccess, BPF_DEVCG_ACC_MKNOD, 2);
  program.answer(0);
  for (const DeviceRule& rule : rules) {
    program.skip_unless(kMajor, rule.major, rule.minor ? 3 : 2);
    if (rule.minor) program.skip_unless(kMinor, *rule.minor, 2);
    program.answer(1);
  }
  program.answer(0);
  return program;
}

}  // namespace

const std::vector<std::string>& harmless_devices() {
  static const std::vector<std::string> kDevices = {
      "c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 136:*"};
  return kDevices;
}

bool can_list_devices(const std::string& folder) {
  struct statfs info{};
  return ::statfs(folder.c_str(), &info) == 0 && info.f_type == CGROUP2_SUPER_MAGIC &&
         program_for({}).loaded().open();
}

std::string list_devices(const std::string& group, const std::vector<std::string>& granted) {
  std::vector<DeviceRule> rules;
  for (const std::vector<std::string>* list : {&harmless_devices(), &granted}) {
    for (const std::string& device : *list) {
      const auto rule = parsed(device);
      if (!rule) return "a device called " + device;
      rules.push_back(*rule);
    }
  }
  const Descriptor program = program_for(rules).loaded();
  if (!program.open()) return std::string("a list of devices: ") + std::strerror(errno);
  const Descriptor folder(::open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  union bpf_attr what{};
  what.target_fd = static_cast<std::uint32_t>(folder.get());
  what.attach_bpf_fd = static_cast<std::uint32_t>(program.get());
  what.attach_type = BPF_CGROUP_DEVICE;
  what.attach_flags = BPF_F_ALLOW_MULTI;  // What groups above it say counts, too.
  if (!folder.open() || ::syscall(SYS_bpf, BPF_PROG_ATTACH, &what, sizeof what) != 0)
    return std::string("a list of devices: ") + std::strerror(errno);
  return {};
}

}  // namespace tranche::agent
