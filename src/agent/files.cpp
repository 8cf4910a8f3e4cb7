// SPDX-License-Identifier: Apache-2.0
#include "agent/files.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tranche::agent {
namespace {

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path) {
  throw std::runtime_error(what + " " + path.string() + ": " + std::strerror(errno));
}

void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot write", path);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// Opened without following a link: what a job put there cannot lead out of its place.
Folder enter(int parent, const char* name) {
  const int descriptor = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  Folder folder(::fdopendir(descriptor));
  if (!folder) ::close(descriptor);
  return folder;
}

bool is_dots(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

bool remove_at(int parent, const char* name, int depth) {
  constexpr int kDepthMax = 4096;
  if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) return true;
  if (depth > kDepthMax) return false;
  Folder folder = enter(parent, name);
  if (!folder) {
    ::fchmodat(parent, name, 0700, 0);
    folder = enter(parent, name);
    if (!folder) return false;
  }
  bool all = true;
  while (const dirent* entry = ::readdir(folder.get()))
    if (!is_dots(entry->d_name)) all = remove_at(::dirfd(folder.get()), entry->d_name, depth + 1) && all;
  folder.reset();
  return (::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) && all;
}

void add_tree(int parent, const char* name, const TreeSize& enough, TreeSize& sum) {
  const Folder folder = enter(parent, name);
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (is_dots(entry->d_name)) continue;
    struct stat info{};
    if (::fstatat(::dirfd(folder.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    sum.bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    ++sum.files;
    if (sum.bytes > enough.bytes || sum.files > enough.files) return;
    if (S_ISDIR(info.st_mode)) add_tree(::dirfd(folder.get()), entry->d_name, enough, sum);
  }
}

}  // namespace

std::optional<std::string> read_whole(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) {
    if (errno == ENOENT) return std::nullopt;
    fail("cannot read", path);
  }
  return read_descriptor(file.get());
}

std::string read_descriptor(int descriptor) {
  std::string content;
  std::array<char, 16 * 1024> piece{};
  off_t at = 0;
  for (;;) {
    const ssize_t got = ::pread(descriptor, piece.data(), piece.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return content;
    content.append(piece.data(), static_cast<std::size_t>(got));
    at += got;
  }
}

void write_whole(const std::filesystem::path& path, std::string_view content, unsigned mode, bool sync) {
  const std::filesystem::path fresh = path.string() + ".new";
  const Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.open()) fail("cannot create", fresh);
  write_all(file.get(), content, fresh);
  if (sync && ::fsync(file.get()) != 0) fail("cannot sync", fresh);
  if (::rename(fresh.c_str(), path.c_str()) != 0) fail("cannot replace", path);
}

void put_file(const std::filesystem::path& path, std::string_view content, unsigned mode) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.open()) fail("cannot create", path);
  write_all(file.get(), content, path);
}

void make_folder(const std::filesystem::path& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) fail("cannot create", path);
}

Descriptor open_folder(const std::filesystem::path& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.open()) fail("cannot open", path);
  return folder;
}

Descriptor memory_file(const char* name, std::string_view content) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.open()) fail("cannot create memory for", name);
  write_all(file.get(), content, name);
  return file;
}

bool remove_tree(const std::filesystem::path& path) {
  return remove_at(AT_FDCWD, path.c_str(), 0);
}

TreeSize tree_size(int folder, const char* name, TreeSize enough) {
  TreeSize sum;
  add_tree(folder, name, enough, sum);
  return sum;
}

}  // namespace tranche::agent
