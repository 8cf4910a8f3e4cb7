// SPDX-License-Identifier: Apache-2.0
#include "agent/image_layer.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <set>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/files.hpp"
#include "agent/system_failure.hpp"

namespace tranche::agent {
namespace {

constexpr std::string_view kWhiteout = ".wh.";        // Before a name: what is below it is gone.
constexpr std::string_view kOpaque = ".wh..wh..opq";  // In a folder: all that was in it is gone.

std::string through(int folder, const std::string& name) {
  return "/proc/self/fd/" + std::to_string(folder) + "/" + name;
}

// "./usr//bin/" to "usr/bin"; a name that leads out of the image is refused.
std::string inner_path(const std::string& written, const char* what) {
  if (written.starts_with('/')) throw std::runtime_error(std::string(what) + " is absolute: " + written);
  std::string path;
  for (const std::filesystem::path& part : std::filesystem::path(written)) {
    if (part == "..") throw std::runtime_error(std::string(what) + " leads out of the image: " + written);
    if (!part.empty() && part != ".") path += (path.empty() ? "" : "/") + part.string();
  }
  return path;
}

class Layer {
 public:
  Layer(int root, TarReader& content, LayerLimits& limits)
      : root_(root), content_(content), limits_(limits) {}

  void apply() {
    for (TarEntry entry; content_.next(entry);) {
      if (limits_.entries-- == 0) throw std::runtime_error("it holds more files than an image may");
      const std::string path = inner_path(entry.path, "a name");
      if (path.empty()) continue;  // The root itself.
      const std::size_t slash = path.rfind('/');
      const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
      const Descriptor parent = folder_at(slash == std::string::npos ? "" : path.substr(0, slash));
      if (name == kOpaque) {
        clear(parent.get(), path.substr(0, path.size() - name.size()));
      } else if (name.starts_with(kWhiteout)) {
        remove(parent.get(), name.substr(kWhiteout.size()));
      } else {
        mine_.insert(path);
        make(entry, parent.get(), name);
      }
    }
  }

 private:
  // Links are followed as they would be inside: the image's root is as far up as they lead.
  [[nodiscard]] int open_inside(const std::string& path, int flags) const {
    open_how how{};
    how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    return static_cast<int>(
        ::syscall(SYS_openat2, root_, path.empty() ? "." : path.c_str(), &how, sizeof how));
  }

  Descriptor folder_at(const std::string& path) {
    Descriptor folder(open_inside(path, O_RDONLY | O_DIRECTORY));
    if (folder.open()) return folder;
    if (path.empty() || errno != ENOENT) fail("cannot enter " + path);
    const std::size_t slash = path.rfind('/');
    const Descriptor parent = folder_at(slash == std::string::npos ? "" : path.substr(0, slash));
    const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (::mkdirat(parent.get(), name.c_str(), 0755) != 0) {
      if (errno == EEXIST) throw std::runtime_error("a link in it leads to nothing: " + path);
      fail("cannot make " + path);
    }
    folder.reset(open_inside(path, O_RDONLY | O_DIRECTORY));
    if (!folder.open()) fail("cannot enter " + path);
    return folder;
  }

  void remove(int parent, const std::string& name) const {
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
      throw std::runtime_error("a whiteout names no file");
    if (!remove_tree(through(parent, name))) throw std::runtime_error("cannot remove " + name);
  }

  void clear(int folder, const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(through(folder, "")))
      names.push_back(entry.path().filename().string());
    for (const std::string& name : names)
      if (!mine_.contains(prefix + name)) remove(folder, name);
  }

  void make(const TarEntry& entry, int parent, const std::string& name) {
    struct stat found{};
    const bool there = ::fstatat(parent, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
    const bool stays = there && entry.kind == TarKind::kFolder && S_ISDIR(found.st_mode);
    if (there && !stays) remove(parent, name);
    switch (entry.kind) {
      case TarKind::kFolder:
        if (!stays && ::mkdirat(parent, name.c_str(), 0755) != 0) fail("cannot make " + entry.path);
        // The node itself must be able to enter and to remove it. No bit that lends rights.
        ::fchmodat(parent, name.c_str(), (entry.mode & 0777U) | 0700U, 0);
        return;
      case TarKind::kFile:
        return make_file(entry, parent, name);
      case TarKind::kSymbolicLink:
        if (::symlinkat(entry.target.c_str(), parent, name.c_str()) != 0) fail("cannot link " + entry.path);
        return;
      case TarKind::kHardLink:
        return make_hard_link(entry, parent, name);
      case TarKind::kOther:
        throw std::runtime_error("it holds a device or a pipe, which no image may: " + entry.path);
    }
  }

  void make_file(const TarEntry& entry, int parent, const std::string& name) {
    if (entry.size > limits_.bytes) throw std::runtime_error("it holds more bytes than an image may");
    limits_.bytes -= entry.size;
    const Descriptor file(
        ::openat(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.open()) fail("cannot make " + entry.path);
    std::array<char, 64 * 1024> piece{};
    while (const std::size_t got = content_.read(piece.data(), piece.size()))
      for (std::size_t at = 0; at < got;) {
        const ssize_t put = ::write(file.get(), piece.data() + at, got - at);
        if (put <= 0) fail("cannot write " + entry.path);
        at += static_cast<std::size_t>(put);
      }
    ::fchmod(file.get(), entry.mode & 0777U);
    const timespec times[2] = {{entry.written, 0}, {entry.written, 0}};  // Caches of programs compare it.
    ::futimens(file.get(), times);
  }

  void make_hard_link(const TarEntry& entry, int parent, const std::string& name) const {
    const Descriptor target(
        open_inside(inner_path(entry.target, "the target of a link"), O_PATH | O_NOFOLLOW));
    if (!target.open()) fail("a link in it leads to nothing: " + entry.target);
    const std::string place = "/proc/self/fd/" + std::to_string(target.get());
    if (::linkat(AT_FDCWD, place.c_str(), parent, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      fail("cannot link " + entry.path);
  }

  int root_;
  TarReader& content_;
  LayerLimits& limits_;
  std::set<std::string> mine_;  // Of this layer: what came before it is not hidden with what was below.
};

}  // namespace

void apply_layer(int root, TarReader& layer, LayerLimits& limits) {
  Layer(root, layer, limits).apply();
}

}  // namespace tranche::agent
