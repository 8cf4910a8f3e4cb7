// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_root.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <sched.h>
#include <stdexcept>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/descriptor.hpp"
#include "agent/system_failure.hpp"
#include "agent/system_view.hpp"
#include "agent/unit_loop.hpp"
#include "wire/mount_place.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kPlace = kStagedRoot;  // Until it is the root. Covered in our view alone.
// Places that jobs fill with what is their own, and files in what they share that may be covered.
constexpr std::array kPrepared = {
    "/proc", "/dev/pts", "/dev/shm", "/work", "/tmp", "/checkpoint", "/run/tranche"};
constexpr std::array kPreparedFiles = {kProgressInside};
constexpr std::array kInShared = {"/run/tranche/guard.sock", "/etc/ld.so.preload", "/etc/resolv.conf"};
constexpr const char* kSharedMemory = "mode=1777,size=1073741824";

void set_flags(int mount, std::uint64_t flags, unsigned depth) {
  mount_attr wanted{};
  wanted.attr_set = flags;
  wanted.propagation = MS_SLAVE;  // Nothing done below it is seen by the node.
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

std::vector<Descriptor> copies_of(const std::vector<Bind>& binds) {
  std::vector<Descriptor> copies;
  for (const Bind& bind : binds) copies.push_back(copy_of(bind));
  return copies;
}

class Root {
 public:
  // An empty one, over a place of this mount namespace.
  explicit Root(std::uint32_t uid) : place_(kPlace), uid_(uid) {
    if (::mount("tmpfs", kPlace, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0)
      fail("cannot make a root");
    open();
  }
  // The one that this process has.
  Root() { open(); }

  void add_links(const SystemView& view) {
    for (const auto& [place, target] : view.links)
      if (::symlinkat(target.c_str(), root_.get(), place.c_str() + 1) != 0) fail("cannot link " + place);
    const Descriptor dev = made_folder("/dev");
    constexpr std::array<std::array<const char*, 2>, 6> kLinks = {{{"/proc/self/fd", "fd"},
                                                                   {"/proc/self/fd/0", "stdin"},
                                                                   {"/proc/self/fd/1", "stdout"},
                                                                   {"/proc/self/fd/2", "stderr"},
                                                                   {"/proc/kcore", "core"},
                                                                   {"pts/ptmx", "ptmx"}}};
    for (const auto& [target, name] : kLinks)
      if (::symlinkat(target, dev.get(), name) != 0) fail("cannot make a link of /dev");
  }

  void add_binds(const std::vector<Descriptor>& copies, const std::vector<Bind>& binds) {
    for (std::size_t i = 0; i < copies.size(); ++i) attach(copies[i].get(), binds[i].target);
  }

  void add_places_for(const std::vector<Bind>& binds) {
    for (const Bind& bind : binds) {
      struct stat info{};
      if (::stat(bind.source.c_str(), &info) != 0) fail("cannot look at " + bind.source);
      static_cast<void>(S_ISDIR(info.st_mode) ? made_folder(bind.target) : made_file(bind.target));
    }
  }

  // To be filled later, when this root cannot be written any more.
  void add_places() {
    for (const char* place : kPrepared) made_folder(place);
    for (const char* place : kPreparedFiles) made_file(place);
  }

  // What no two jobs may share: terminals, shared memory, processes.
  void add_own_mounts() {
    mount_new("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    mount_new("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, kSharedMemory);
    mount_new("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  }

  // The kernel's settings and buttons are for reading; the job's user could not write most of them anyway.
  Descriptor close_proc() {
    Descriptor settings(at("/proc/sys", O_PATH | O_DIRECTORY));
    for (const char* place : {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"}) {
      const std::string source = place_ + place;
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
  void open() {
    root_.reset(::open((place_ + "/").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_.open()) fail("cannot open the root");
  }

  // Links lead where the job would see them lead, never into the node's tree. Where the job may choose the
  // place there are none: one that it made would have its volume cover what is above it here.
  [[nodiscard]] int at(const std::string& inside, int flags) const {
    open_how how{};
    how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    if (wire::may_be_covered(inside)) how.resolve |= RESOLVE_NO_SYMLINKS;
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
    if (::mount(source, (place_ + inside).c_str(), kind, flags, more) != 0)
      fail(std::string("cannot mount ") + inside);
  }

  std::string place_;  // Of the root, as paths of this process lead there.
  std::uint32_t uid_ = 0;
  Descriptor root_;
};

void keep_mounts_to_itself() {
  if (::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) fail("cannot keep mounts to itself");
}

SystemView whole_view(const std::string& rootfs) {
  SystemView view = system_view(rootfs);
  for (const char* name : {"null", "zero", "full", "random", "urandom", "tty"})
    view.binds.push_back({std::string("/dev/") + name, std::string("/dev/") + name, BindKind::kDevice});
  return view;
}

}  // namespace

int enter_sandbox_root(const SandboxPlan& plan, const std::vector<Bind>& binds) {
  keep_mounts_to_itself();
  SystemView view = whole_view(plan.rootfs);
  view.binds.insert(view.binds.end(), binds.begin(), binds.end());
  const std::vector<Descriptor> copies =
      copies_of(view.binds);  // Before the root covers what they may be in.
  Root root(plan.uid);
  root.add_links(view);
  root.add_own_mounts();
  root.add_binds(copies, view.binds);
  Descriptor settings = root.close_proc();
  root.become();
  return settings.release();
}

void stage_sandbox_root(const SandboxPlan& plan,
                        const std::vector<Bind>& binds,
                        const std::vector<Bind>& later) {
  SystemView view = whole_view(plan.rootfs);
  view.binds.insert(view.binds.end(), binds.begin(), binds.end());
  const std::vector<Descriptor> copies = copies_of(view.binds);
  Root root(plan.uid);
  root.add_links(view);
  root.add_own_mounts();
  root.add_binds(copies, view.binds);
  root.add_places_for(later);
  root.close_proc();
}

int prepare_sandbox_root(const std::vector<Bind>& shared) {
  int told[2] = {-1, -1};
  if (::pipe2(told, O_CLOEXEC) != 0) return -1;
  const Descriptor hears(told[0]);
  Descriptor tells(told[1]);
  const int child = ::fork();
  if (child == 0) {
    try {
      ::umask(022);  // Whoever the job's user is, it walks through all of it.
      if (::unshare(CLONE_NEWNS) != 0) fail("cannot make a mount namespace");
      keep_mounts_to_itself();
      SystemView view = whole_view({});
      view.binds.insert(view.binds.end(), shared.begin(), shared.end());
      const std::vector<Descriptor> copies = copies_of(view.binds);
      Root root(0);
      root.add_links(view);
      root.add_places();
      root.add_binds(copies, view.binds);
      root.become();
      if (::write(tells.get(), "1", 1) == 1) ::pause();  // Until the other has the namespace.
    } catch (const std::exception& error) { std::fprintf(stderr, "tranche: %s\n", error.what()); }
    ::_exit(1);
  }
  tells.reset();
  char byte = 0;
  int made = -1;
  if (child > 0 && ::read(hears.get(), &byte, 1) == 1)
    made = ::open(("/proc/" + std::to_string(child) + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC);
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return made;
}

bool fits_prepared_root(const std::vector<Bind>& own) {
  return std::all_of(own.begin(), own.end(), [](const Bind& bind) {
    const auto among = [&](const auto& places) {
      return std::any_of(
          places.begin(), places.end(), [&](const char* place) { return bind.target == place; });
    };
    return among(kPrepared) || among(kPreparedFiles) || among(kInShared);
  });
}

int enter_prepared_root(int prepared, const std::vector<Bind>& own) {
  const std::vector<Descriptor> copies = copies_of(own);  // While the node's own tree is in sight.
  if (::setns(prepared, CLONE_NEWNS) != 0 || ::unshare(CLONE_NEWNS) != 0)
    fail("cannot copy what was prepared");
  Root root;
  root.add_own_mounts();
  root.add_binds(copies, own);
  return root.close_proc().release();
}

}  // namespace tranche::agent
