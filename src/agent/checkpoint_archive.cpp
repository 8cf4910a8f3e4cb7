// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint_archive.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <memory>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "net/digest.hpp"

namespace tranche::agent {
namespace {

constexpr int kDepthMost = 64;
constexpr std::size_t kEntriesMost = 1'000'000;
constexpr std::size_t kPathMost = 4096;
constexpr std::size_t kPiece = 1U << 20U;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("checkpoint: " + what);
}

std::string read_link(int folder, const std::string& name) {
  std::array<char, kPathMost> target{};
  const ssize_t got = ::readlinkat(folder, name.c_str(), target.data(), target.size());
  if (got < 0 || static_cast<std::size_t>(got) == target.size()) fail("a link cannot be read: " + name);
  return {target.data(), static_cast<std::size_t>(got)};
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(own < 0 ? nullptr : ::fdopendir(own), &::closedir);
  if (!listing) fail("a folder cannot be read");
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// No part that leads up or out.
bool is_inside(std::string_view path) {
  if (path.empty() || path.size() > kPathMost || path.front() == '/' ||
      path.find('\0') != std::string_view::npos)
    return false;
  while (!path.empty()) {
    const auto end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return true;
}

// Through no link on the way: the job may be at work there.
int open_beneath(int folder, const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
}

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put <= 0) fail("there is no room for it");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace

ArchiveWriter::ArchiveWriter(const std::filesystem::path& folder, const std::string& name)
    : root_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) {
  if (!root_.open()) fail("its folder cannot be read");
  if (name.empty()) {
    list_below(root_.get(), "", 0);
    return;
  }
  if (!is_inside(name)) fail("'" + name + "' is not in its folder");
  // Down to it without following a link.
  Descriptor parent(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 3));
  std::string prefix;
  std::string_view rest = name;
  for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const std::string part(rest.substr(0, slash));
    parent.reset(::openat(parent.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!parent.open()) fail("there is no " + name);
    prefix += part + "/";
    rest.remove_prefix(slash + 1);
  }
  const std::size_t before = entries_.size();
  list(parent.get(), prefix, std::string(rest), 0);
  if (entries_.size() == before || entries_[before].kind == Kind::kLink) fail("there is no " + name);
}

void ArchiveWriter::list_below(int folder, const std::string& path, int depth) {
  if (depth > kDepthMost) fail("folders are too deep in it");
  for (const std::string& name : names_in(folder)) list(folder, path, name, depth);
}

void ArchiveWriter::list(int folder, const std::string& prefix, const std::string& name, int depth) {
  struct stat info{};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (entries_.size() >= kEntriesMost) fail("there are too many files in it");
  Entry entry{.mode = info.st_mode & 0777U, .path = prefix + name};
  if (S_ISDIR(info.st_mode)) {
    entry.kind = Kind::kFolder;
    const Descriptor below(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!below.open()) fail("a folder cannot be read: " + entry.path);
    entries_.push_back(entry);
    return list_below(below.get(), entry.path + "/", depth + 1);
  }
  if (S_ISLNK(info.st_mode)) {
    entry.kind = Kind::kLink;
    entry.target = read_link(folder, name);
    entry.size = entry.target.size();
  } else if (S_ISREG(info.st_mode)) {
    entry.size = static_cast<std::uint64_t>(info.st_size);
    content_ += entry.size;
  } else {
    return;  // A socket or a pipe holds nothing.
  }
  entries_.push_back(std::move(entry));
}

std::string ArchiveWriter::next(std::size_t about) {
  std::string out;
  while (out.size() < about && !ended_) {
    if (left_ > 0) {
      std::string piece(std::min<std::uint64_t>(left_, about), '\0');
      const ssize_t got = ::read(file_.get(), piece.data(), piece.size());
      if (got <= 0) fail("a file became shorter while it was read");
      out.append(piece, 0, static_cast<std::size_t>(got));
      left_ -= static_cast<std::uint64_t>(got);
      continue;
    }
    if (at_ == entries_.size()) {
      ended_ = true;
      out += "E 0 0 0\n";
      break;
    }
    const Entry& entry = entries_[at_++];
    out += static_cast<char>(entry.kind);
    out += ' ' + std::to_string(entry.mode) + ' ' + std::to_string(entry.size) + ' ' +
           std::to_string(entry.path.size()) + '\n' + entry.path + entry.target;
    if (entry.kind != Kind::kFile || entry.size == 0) continue;
    file_.reset(open_beneath(root_.get(), entry.path));
    struct stat info{};
    if (!file_.open() || ::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode))
      fail("a file cannot be read: " + entry.path);
    left_ = entry.size;
  }
  return out;
}

ArchiveReader::ArchiveReader(const std::filesystem::path& folder, unsigned owner)
    : root_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)), owner_(owner) {
  if (!root_.open()) fail("its folder cannot be used");
}

void ArchiveReader::feed(std::string_view bytes) {
  while (!bytes.empty() || !pending_.empty()) {
    if (left_ > 0) {
      std::string_view source = pending_.empty() ? bytes : std::string_view(pending_);
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, source.size()));
      if (count == 0) return;
      write_all(file_.get(), source.substr(0, count));
      left_ -= count;
      pending_.empty() ? bytes.remove_prefix(count) : static_cast<void>(pending_.erase(0, count));
      continue;
    }
    pending_.append(bytes);
    bytes = {};
    if (ended_ && !pending_.empty()) fail("there is something behind its end");
    if (!take_header()) return;
  }
}

// False while it is not here as a whole.
bool ArchiveReader::take_header() {
  const auto line = pending_.find('\n');
  if (line == std::string::npos) {
    if (pending_.size() > 80) fail("it is damaged");
    return false;
  }
  std::array<std::uint64_t, 3> numbers{};
  const char* at = pending_.data() + 1;
  const char* const end = pending_.data() + line;
  for (std::uint64_t& number : numbers) {
    if (at >= end || *at != ' ') fail("it is damaged");
    const auto parsed = std::from_chars(at + 1, end, number);
    if (parsed.ec != std::errc()) fail("it is damaged");
    at = parsed.ptr;
  }
  const auto [mode, size, length] = numbers;
  const char kind = pending_.front();
  if (at != end || length > kPathMost || (kind == 'L' && size > kPathMost)) fail("it is damaged");
  const std::size_t text = length + (kind == 'L' ? size : 0);
  if (pending_.size() < line + 1 + text) return false;
  std::string path = pending_.substr(line + 1, text);
  pending_.erase(0, line + 1 + text);
  if (kind == 'E') {
    ended_ = true;
    return true;
  }
  if (kind == 'L') {
    const std::string target = path.substr(length);
    path.resize(length);
    if (!is_inside(path)) fail("it leads out of its folder");
    std::string name;
    const Descriptor parent = parent_of(path, name);
    ::unlinkat(parent.get(), name.c_str(), 0);
    if (::symlinkat(target.c_str(), parent.get(), name.c_str()) != 0) fail("a link cannot be made: " + path);
    if (owner_ != 0 && ::fchownat(parent.get(), name.c_str(), owner_, owner_, AT_SYMLINK_NOFOLLOW) != 0)
      fail("a link cannot be handed over");
    return true;
  }
  begin_entry(kind, static_cast<unsigned>(mode), size, std::move(path));
  return true;
}

void ArchiveReader::begin_entry(char kind, unsigned mode, std::uint64_t size, std::string path) {
  if (!is_inside(path) || (kind != 'F' && kind != 'D')) fail("it is damaged, or leads out of its folder");
  std::string name;
  const Descriptor parent = parent_of(path, name);
  if (kind == 'D') {
    if (::mkdirat(parent.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
      fail("a folder cannot be made: " + path);
    file_.reset(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  } else {
    ::unlinkat(parent.get(), name.c_str(), 0);
    file_.reset(
        ::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  }
  if (!file_.open()) fail("it cannot be written: " + path);
  if (owner_ != 0 && ::fchown(file_.get(), owner_, owner_) != 0) fail("it cannot be handed over: " + path);
  if (::fchmod(file_.get(), (mode & 0777U) | (kind == 'D' ? 0700U : 0600U)) != 0)
    fail("it cannot be handed over: " + path);
  left_ = kind == 'F' ? size : 0;
}

Descriptor ArchiveReader::parent_of(const std::string& path, std::string& name) const {
  Descriptor parent(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 3));
  std::string_view rest = path;
  for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const std::string part(rest.substr(0, slash));
    parent.reset(::openat(parent.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!parent.open()) fail("a folder is missing in it: " + path);
    rest.remove_prefix(slash + 1);
  }
  name = rest;
  return parent;
}

std::optional<Digested> digest_in(const std::filesystem::path& folder, const std::string& name) {
  try {
    ArchiveWriter writer(folder, name);
    net::Sha256 hash;
    for (std::string piece = writer.next(kPiece); !piece.empty(); piece = writer.next(kPiece))
      hash.add(piece);
    return Digested{hash.hex(), static_cast<std::int64_t>(writer.content_bytes())};
  } catch (const std::runtime_error&) { return std::nullopt; }
}

}  // namespace tranche::agent
