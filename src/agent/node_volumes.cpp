// SPDX-License-Identifier: Apache-2.0
#include "agent/node_volumes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "agent/files.hpp"
#include "agent/host_time.hpp"
#include "agent/system_failure.hpp"

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHidden = "encrypted";  // Beside data, which then shows what it means.

struct Tally {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// Zeros over all of its bytes, and on the disk before its name goes.
void overwrite(int parent, const char* name, Tally& tally) {
  const Descriptor file(::openat(parent, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!file.open() || ::fstat(file.get(), &info) != 0) fail("cannot open a file to wipe it");
  static const std::vector<char> kZeros(1U << 20U, 0);
  for (off_t at = 0; at < info.st_size;) {
    const auto count = std::min<off_t>(info.st_size - at, static_cast<off_t>(kZeros.size()));
    const ssize_t put = ::pwrite(file.get(), kZeros.data(), static_cast<std::size_t>(count), at);
    if (put <= 0) fail("cannot overwrite a file");
    at += put;
    tally.bytes += static_cast<std::uint64_t>(put);
  }
  if (::fsync(file.get()) != 0) fail("cannot make the wipe durable");
  ++tally.files;
}

// Depth first, by descriptors: no link leads out, and no path is too long.
template <class Visit>
void walk(int parent, const char* name, const Visit& visit) {
  const Descriptor folder(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.open()) fail("cannot read a folder of the volume");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd/" + std::to_string(folder.get())))
    names.push_back(entry.path().filename().string());
  for (const std::string& one : names) {
    struct stat info{};
    if (::fstatat(folder.get(), one.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) fail("cannot look at " + one);
    visit(folder.get(), one, info);
  }
}

void overwrite_tree(int parent, const char* name, Tally& tally) {
  walk(parent, name, [&](int folder, const std::string& one, const struct stat& info) {
    if (S_ISDIR(info.st_mode)) {
      overwrite_tree(folder, one.c_str(), tally);
    } else if (S_ISREG(info.st_mode)) {
      if ((info.st_mode & S_IWUSR) == 0) ::fchmodat(folder, one.c_str(), 0600, 0);
      overwrite(folder, one.c_str(), tally);
    }
  });
}

// Of an encrypted volume: first of all, and durable before anything else is touched.
void destroy_key(int place, Tally& tally) {
  const Descriptor hidden(::openat(place, kHidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!hidden.open()) fail("cannot open the volume");
  if (::faccessat(hidden.get(), VolumeCipher::kLockedKey, F_OK, AT_SYMLINK_NOFOLLOW) != 0) return;
  ::fchmodat(hidden.get(), VolumeCipher::kLockedKey, 0600, 0);
  overwrite(hidden.get(), VolumeCipher::kLockedKey, tally);
  if (::unlinkat(hidden.get(), VolumeCipher::kLockedKey, 0) != 0) fail("cannot remove the key of a volume");
}

void copy_bytes(int from, int to, off_t size) {
  if (::ioctl(to, FICLONE, from) == 0) return;  // Where the file system shares blocks until one is changed.
  off_t at = 0;
  while (at < size) {
    const ssize_t put = ::copy_file_range(from, &at, to, nullptr, static_cast<std::size_t>(size - at), 0);
    if (put < 0) fail("cannot copy a file");
    if (put == 0) return;
  }
}

void copy_file(int from_folder, int to_folder, const char* name, const struct stat& info) {
  const Descriptor from(::openat(from_folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  const Descriptor to(::openat(to_folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!from.open() || !to.open()) fail("cannot copy a file");
  copy_bytes(from.get(), to.get(), info.st_size);
  if (::fchown(to.get(), info.st_uid, info.st_gid) != 0 && ::geteuid() == 0) fail("cannot copy an owner");
  ::fchmod(to.get(), info.st_mode & 07777U);
  const timespec times[2] = {info.st_atim, info.st_mtim};
  ::futimens(to.get(), times);
}

void copy_link(int from_folder, int to_folder, const char* name, const struct stat& info) {
  std::string target(static_cast<std::size_t>(info.st_size) + 1, '\0');
  const ssize_t length = ::readlinkat(from_folder, name, target.data(), target.size());
  if (length < 0) fail("cannot read a link");
  target.resize(static_cast<std::size_t>(length));
  if (::symlinkat(target.c_str(), to_folder, name) != 0) fail("cannot copy a link");
}

void copy_tree(int parent, const char* name, int to_parent, const char* to_name, Tally& tally) {
  struct stat own{};
  if (::fstatat(parent, name, &own, AT_SYMLINK_NOFOLLOW) != 0) fail("cannot look at the volume");
  if (::mkdirat(to_parent, to_name, 0700) != 0) fail("cannot make a folder");
  const Descriptor to(::openat(to_parent, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!to.open()) fail("cannot open the copy");
  walk(parent, name, [&](int folder, const std::string& one, const struct stat& info) {
    if (S_ISDIR(info.st_mode)) return copy_tree(folder, one.c_str(), to.get(), one.c_str(), tally);
    if (S_ISLNK(info.st_mode)) return copy_link(folder, to.get(), one.c_str(), info);
    if (!S_ISREG(info.st_mode)) return;  // Sockets and pipes hold nothing.
    copy_file(folder, to.get(), one.c_str(), info);
    ++tally.files;
    tally.bytes += static_cast<std::uint64_t>(info.st_size);
  });
  if (::fchown(to.get(), own.st_uid, own.st_gid) != 0 && ::geteuid() == 0) fail("cannot copy an owner");
  ::fchmod(to.get(), own.st_mode & 07777U);
}

template <class Work>
wire::VolumeReceipt timed(const wire::VolumeOrder& order, std::string method, const Work& work) {
  const BootTime began = boot_time();
  Tally tally;
  wire::VolumeReceipt receipt{.volume = order.volume, .work = order.work};
  try {
    work(tally);
    receipt.done = true;
    receipt.method = std::move(method);
  } catch (const std::exception& error) { receipt.message = error.what(); }
  receipt.at = wall_time();
  receipt.took = Duration(static_cast<std::int64_t>((boot_time() - began) / 1000));
  receipt.files = tally.files;
  receipt.bytes = {static_cast<std::int64_t>(tally.bytes)};
  return receipt;
}

std::string random_letters() {
  std::array<unsigned char, 4> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) fail("no randomness");
  std::string out;
  for (const unsigned char byte : bytes) {
    out += "0123456789abcdef"[byte >> 4U];
    out += "0123456789abcdef"[byte & 15U];
  }
  return out;
}

bool is_pool_name(const std::string& name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

}  // namespace

std::string pool_name(const fs::path& folder) {
  const fs::path marker = folder / "tranche-pool";
  if (!fs::exists(marker)) {
    const fs::path fresh = folder / ("tranche-pool." + random_letters());
    write_whole(fresh, "pool-" + random_letters() + "\n", 0644);
    const int linked = ::link(fresh.c_str(), marker.c_str());  // The first one to do so names it.
    const int error = errno;
    ::unlink(fresh.c_str());
    if (linked != 0 && error != EEXIST)
      throw std::runtime_error("cannot name the pool in " + folder.string() + ": " + std::strerror(error));
  }
  std::string name = read_whole(marker).value_or("");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  if (!is_pool_name(name))
    throw std::runtime_error(marker.string() + " holds the pool's name: 1 to 63 of a-z, 0-9, '-' and '_'");
  return name;
}

bool NodeVolumes::belongs_to(VolumeId volume, PartyId tenant) const {
  const auto owner = read_whole(place_of(volume) / "tenant");
  return !owner || *owner == text(tenant);
}

bool NodeVolumes::is_encrypted(VolumeId volume) const {
  return fs::exists(place_of(volume) / kHidden);
}

std::vector<VolumeId> NodeVolumes::plain() const {
  std::vector<VolumeId> open;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const auto id = parse_id(VolumeId::kIdPrefix, entry.path().filename().string());
    if (id && !fs::exists(entry.path() / kHidden)) open.push_back({*id});
  }
  std::sort(open.begin(), open.end());
  return open;
}

// Under another name first: of several nodes that begin with a volume at once, one makes its key.
void NodeVolumes::lock_new(VolumeId volume, const std::string& key) const {
  const fs::path hidden = place_of(volume) / kHidden;
  if (fs::exists(hidden / VolumeCipher::kLockedKey)) return;
  const fs::path fresh = place_of(volume) / (std::string(kHidden) + "." + random_letters());
  make_folder(fresh, 0700);
  cipher_.create(fresh, key);
  if (::rename(fresh.c_str(), hidden.c_str()) == 0) return;
  const int error = errno;
  remove_tree(fresh);
  if (!fs::exists(hidden / VolumeCipher::kLockedKey))
    throw std::runtime_error("cannot begin " + text(volume) + ": " + std::strerror(error));
}

void NodeVolumes::unlock(VolumeId volume, const std::string& key) const {
  if (!cipher_.missing().empty())
    throw std::runtime_error(text(volume) + " is encrypted, and " + cipher_.missing());
  if (key.empty()) throw std::runtime_error("the server gave no key for " + text(volume));
  const fs::path hidden = place_of(volume) / kHidden, shown = shown_of(volume);
  lock_new(volume, key);
  if (VolumeCipher::attached(shown)) {
    struct stat info{};
    if (::stat(shown.c_str(), &info) == 0) return;
    VolumeCipher::detach(shown);  // Its process is gone.
  }
  make_folder(shown_, 0711);
  make_folder(shown.parent_path(), 0711);
  make_folder(shown, 0700);
  cipher_.attach(
      hidden, shown, key, in_pool() ? VolumeCipher::Users::kManyNodes : VolumeCipher::Users::kOneNode);
}

void NodeVolumes::close(VolumeId volume) const {
  if (is_encrypted(volume)) VolumeCipher::detach(shown_of(volume));
}

void NodeVolumes::close_others(const std::set<VolumeId>& in_use) const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(shown_, ignored))
    if (const auto id = parse_id(VolumeId::kIdPrefix, entry.path().filename().string()))
      if (!in_use.contains(VolumeId{*id})) close({*id});
}

fs::path NodeVolumes::open(VolumeId volume, const User& user) const {
  const PartyId tenant = user.tenant;
  const std::uint32_t uid = user.uid;
  if (!belongs_to(volume, tenant)) throw std::runtime_error(text(volume) + " belongs to another tenant");
  const fs::path place = place_of(volume);
  make_folder(folder_, 0711);
  make_folder(place, 0711);
  write_whole(place / "tenant", text(tenant), 0600);
  const bool is_new = !fs::exists(place / "data");
  const bool locked = is_encrypted(volume) || (is_new && encrypts());
  if (locked) unlock(volume, user.key);
  if (is_new && !locked) make_folder(place / "data", 0700);
  const fs::path shown = locked ? shown_of(volume) : place / "data";
  if (uid != 0 && ::chown(shown.c_str(), uid, uid) != 0) fail("cannot hand over a volume");
  return shown;
}

wire::VolumeReceipt NodeVolumes::copy(const wire::VolumeOrder& order) const {
  return timed(order, "every file read and written anew, or its blocks shared", [&](Tally& tally) {
    if (!belongs_to(order.source, order.tenant) || !belongs_to(order.volume, order.tenant))
      throw std::runtime_error("a volume of another tenant is not copied");
    const char* const files = is_encrypted(order.source) ? kHidden : "data";
    if (!fs::is_directory(place_of(order.source) / files))
      throw std::runtime_error("its source is not on this node");
    make_folder(place_of(order.volume), 0711);
    write_whole(place_of(order.volume) / "tenant", text(order.tenant), 0600);
    remove_tree(place_of(order.volume) / files);  // A copy that was broken off.
    const Descriptor from = open_folder(place_of(order.source));
    const Descriptor to = open_folder(place_of(order.volume));
    copy_tree(from.get(), files, to.get(), files, tally);
    if (::syncfs(to.get()) != 0) fail("cannot make the copy durable");
  });
}

wire::VolumeReceipt NodeVolumes::wipe(const wire::VolumeOrder& order) const {
  const bool encrypted = is_encrypted(order.volume);
  return timed(
      order,
      std::string(encrypted ? "the key of its files overwritten, which alone makes them unreadable; then "
                            : "") +
          "every file overwritten once with zeros, synced and unlinked; what the disk itself remaps is "
          "beyond it",
      [&](Tally& tally) {
        if (!belongs_to(order.volume, order.tenant))
          throw std::runtime_error("a volume of another tenant is not wiped");
        if (!fs::exists(place_of(order.volume))) return;  // Never used, or wiped before.
        const Descriptor place = open_folder(place_of(order.volume));
        if (encrypted) destroy_key(place.get(), tally);
        close(order.volume);
        if (encrypted) overwrite_tree(place.get(), kHidden, tally);
        if (in_pool()) remove_tree(shown_of(order.volume).parent_path());
        if (fs::exists(place_of(order.volume) / "data")) overwrite_tree(place.get(), "data", tally);
        if (!remove_tree(place_of(order.volume))) throw std::runtime_error("files are left that cannot go");
      });
}

}  // namespace tranche::agent
