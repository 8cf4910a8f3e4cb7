// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_root.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <stdexcept>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/descriptor.hpp"
#include "agent/system_failure.hpp"
#include "agent/system_view.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kPlace = "/tmp";  // Of the new root, until it is the root. Covered in our view alone.
constexpr const char* kSharedMemory = "mode=1777,size=1073741824";

void set_flags(int mount, std::uint64_t flags, unsigned depth) {
  mount_attr wanted{};
  wanted.attr_set = flags;
  if (::mount_setattr(mount, "", AT_EMPTY_PATH | depth, &wanted, sizeof wanted) != 0)
    fail("cannot restrict a mount");
}

// A copy of what is mounted at `source`, and below it, that hangs nowhere yet.
Descriptor copy_of(const Bind& bind) {
  Descriptor copy(::open_tree(AT_FDCWD,
                              bind.source.c_str(),
                              OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW));
  if (!copy.open()) fail("cannot open " + bind.source);
  std::uint64_t flags = MOUNT_ATTR_NOSUID;
  if (bind.kind != BindKind::kDevice) flags |= MOUNT_ATTR_NODEV;
  if (bind.kind == BindKind::kReadOnly) flags |= MOUNT_ATTR_RDONLY;
  set_flags(copy.get(), flags, AT_RECURSIVE);
  return copy;
}

class Root {
 public:
  Root(const SandboxPlan& plan, const std::vector<Bind>& binds) : uid_(plan.uid) {
    if (::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) fail("cannot keep mounts to itself");
    SystemView view = system_view(plan.rootfs);
    for (const char* name : {"null", "zero", "full", "random", "urandom", "tty"})
      view.binds.push_back({std::string("/dev/") + name, std::string("/dev/") + name, BindKind::kDevice});
    view.binds.insert(view.binds.end(), binds.begin(), binds.end());
    std::vector<Descriptor> copies;  // Before the new root covers a place where some of them may be.
    for (const Bind& bind : view.binds) copies.push_back(copy_of(bind));
    if (::mount("tmpfs", kPlace, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0)
      fail("cannot make a root");
    root_.reset(::open(kPlace, O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (const auto& [place, target] : view.links)
      if (::symlinkat(target.c_str(), root_.get(), place.c_str() + 1) != 0) fail("cannot link " + place);
    make_devices();
    mount_new("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
    for (std::size_t i = 0; i < copies.size(); ++i) attach(copies[i].get(), view.binds[i].target);
  }

  // The kernel's settings and buttons are for reading; the job's user could not write most of them anyway.
  Descriptor close_proc() {
    Descriptor settings(at("/proc/sys", O_PATH | O_DIRECTORY));
    for (const char* place : {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"}) {
      const std::string source = kPlace + std::string(place);
      if (::access(source.c_str(), F_OK) != 0) continue;
      attach(copy_of({source, place, BindKind::kReadOnly}).get(), place);
    }
    return settings;
  }

  void become() {
    set_flags(root_.get(), MOUNT_ATTR_RDONLY, 0);
    // The old root lands on top of the new one, and goes: nothing of it can be reached by any name.
    if (::fchdir(root_.get()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
        ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0)
      fail("cannot change the root");
  }

 private:
  // Links lead where the job would see them lead, never into the node's tree.
  [[nodiscard]] int at(const std::string& inside, int flags) const {
    open_how how{};
    how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    return static_cast<int>(::syscall(SYS_openat2, root_.get(), inside.c_str(), &how, sizeof how));
  }

  Descriptor made_folder(const std::filesystem::path& inside) {
    Descriptor found(at(inside.string(), O_PATH | O_DIRECTORY));
    if (found.open()) return found;
    const Descriptor parent = made_folder(inside.parent_path());
    const std::string name = inside.filename().string();
    if (::mkdirat(parent.get(), name.c_str(), 0755) != 0) fail("cannot make " + inside.string());
    // In places of the job's own, it owns what leads to its mounts. Never through a link: we just made it.
    if (::fchownat(parent.get(), name.c_str(), uid_, uid_, AT_SYMLINK_NOFOLLOW) != 0)
      fail("cannot hand over " + inside.string());
    found.reset(at(inside.string(), O_PATH | O_DIRECTORY));
    if (!found.open()) fail("cannot open " + inside.string());
    return found;
  }

  Descriptor made_file(const std::filesystem::path& inside) {
    Descriptor found(at(inside.string(), O_PATH));
    if (found.open()) return found;
    const Descriptor parent = made_folder(inside.parent_path());
    const std::string name = inside.filename().string();
    found.reset(
        ::openat(parent.get(), name.c_str(), O_CREAT | O_EXCL | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!found.open()) fail("cannot make " + inside.string());
    return found;
  }

  void attach(int copy, const std::string& inside) {
    struct stat info{};
    if (::fstat(copy, &info) != 0) fail("cannot look at what goes to " + inside);
    const Descriptor place = S_ISDIR(info.st_mode) ? made_folder(inside) : made_file(inside);
    if (::move_mount(copy, "", place.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
      fail("cannot show " + inside);
  }

  void mount_new(
      const char* source, const char* inside, const char* kind, unsigned long flags, const char* more) {
    const Descriptor made = made_folder(inside);
    if (::mount(source, (kPlace + std::string(inside)).c_str(), kind, flags, more) != 0)
      fail(std::string("cannot mount ") + inside);
  }

  void make_devices() {
    const Descriptor dev = made_folder("/dev");
    constexpr std::array<std::array<const char*, 2>, 6> kLinks = {{{"/proc/self/fd", "fd"},
                                                                   {"/proc/self/fd/0", "stdin"},
                                                                   {"/proc/self/fd/1", "stdout"},
                                                                   {"/proc/self/fd/2", "stderr"},
                                                                   {"/proc/kcore", "core"},
                                                                   {"pts/ptmx", "ptmx"}}};
    for (const auto& [target, name] : kLinks)
      if (::symlinkat(target, dev.get(), name) != 0) fail("cannot make a link of /dev");
    mount_new("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    mount_new("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, kSharedMemory);
  }

  std::uint32_t uid_;
  Descriptor root_;
};

}  // namespace

int enter_sandbox_root(const SandboxPlan& plan, const std::vector<Bind>& binds) {
  Root root(plan, binds);
  Descriptor settings = root.close_proc();
  root.become();
  return settings.release();
}

}  // namespace tranche::agent
