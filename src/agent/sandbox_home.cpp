// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_home.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <sys/stat.h>

#include "agent/bubblewrap.hpp"
#include "agent/files.hpp"
#include "agent/job_network.hpp"

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

// What programs look for at start; nothing that names this node's people, keys or networks.
constexpr std::array kCopied = {"ld.so.cache",
                                "ld.so.conf",
                                "ld.so.conf.d",
                                "localtime",
                                "ssl/openssl.cnf",
                                "ca-certificates",
                                "fonts",
                                "mime.types",
                                "protocols",
                                "services",
                                "rpc",
                                "python3",
                                "python3.11",
                                "terminfo"};
// The same, shown as they are: hundreds of files that would take longer to copy than the rest of a start.
constexpr std::array kShown = {"alternatives", "ssl/certs"};
constexpr std::size_t kKeptMost = 3;  // Of those from before: jobs that were adopted still live in them.
constexpr const char* kGuardInside = "/run/tranche/lib/libtranche-guard.so";

void copy_if_there(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (!fs::exists(from, ignored)) return;
  fs::create_directories(to.parent_path(), ignored);
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks, ignored);
}

void build_etc(const fs::path& etc, bool guarded) {
  make_folder(etc, 0755);
  for (const char* name : kShown)
    if (fs::is_directory(fs::path("/etc") / name)) fs::create_directories(etc / name);
  for (const char* name : kCopied) copy_if_there(fs::path("/etc") / name, etc / name);
  const std::string id = std::to_string(kUidInside);
  write_whole(etc / "passwd",
              "root:x:0:0:root:/:/usr/sbin/nologin\njob:x:" + id + ":" + id +
                  ":job:/work:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
              0644);
  write_whole(etc / "group", "root:x:0:\njob:x:" + id + ":\nnogroup:x:65534:\n", 0644);
  write_whole(etc / "hosts", "127.0.0.1 localhost job\n::1 localhost\n", 0644);
  write_whole(etc / "hostname", "job\n", 0644);
  write_whole(etc / "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0644);
  write_whole(etc / "ld.so.preload", "", 0644);
  write_whole(etc / "resolv.conf", "", 0644);
  fs::create_directories(etc / "OpenCL/vendors");
  if (guarded) write_whole(etc / "OpenCL/vendors/tranche.icd", std::string(kGuardInside) + "\n", 0644);
}

// What a home is made of, in a few letters: one that was made of the same is as good as new.
class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  void add_file(const fs::path& path) {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) return;
    add(path.string());
    for (const std::int64_t part : {static_cast<std::int64_t>(info.st_size),
                                    static_cast<std::int64_t>(info.st_mtim.tv_sec),
                                    static_cast<std::int64_t>(info.st_mtim.tv_nsec)})
      add(std::to_string(part) + ",");
    if (!S_ISDIR(info.st_mode)) return;
    std::set<fs::path> inside;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path, ignored)) inside.insert(entry.path());
    for (const fs::path& one : inside) add_file(one);
  }
  [[nodiscard]] std::string text() const { return std::to_string(value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

std::string fingerprint_of(const fs::path& guard_library) {
  Fingerprint made_of;
  made_of.add(TRANCHE_VERSION);
  for (const char* name : kCopied) made_of.add_file(fs::path("/etc") / name);
  for (const char* name : kShown) made_of.add(fs::is_directory(fs::path("/etc") / name) ? name : "");
  made_of.add_file("/etc/OpenCL/vendors");
  made_of.add_file(guard_library);
  return made_of.text();
}

void remove_oldest(const fs::path& folder, const fs::path& kept) {
  std::vector<std::pair<fs::file_time_type, fs::path>> others;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path() != kept) others.emplace_back(entry.last_write_time(ignored), entry.path());
  std::sort(others.rbegin(), others.rend());
  for (std::size_t i = kKeptMost; i < others.size(); ++i) remove_tree(others[i].second);
}

void build(const fs::path& folder, const fs::path& guard_library) {
  const bool guarded = !guard_library.empty();
  make_folder(folder, 0755);
  build_etc(folder / "etc", guarded);
  const fs::path run = folder / "run";
  fs::create_directories(run / "lib");
  fs::create_directories(run / "opencl");
  write_whole(run / "guard.sock", "", 0644);
  write_whole(folder / "resolv.conf", std::string("nameserver ") + kNameServerInside + "\n", 0644);
  write_whole(folder / "ld.so.preload", std::string(kGuardInside) + "\n", 0644);
  if (guarded) fs::copy_file(guard_library, run / "lib/libtranche-guard.so");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/etc/OpenCL/vendors", ignored))
    fs::copy_file(entry.path(), run / "opencl" / entry.path().filename(), ignored);
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (!entry.is_symlink())
      fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0755) : fs::perms(0644), ignored);
  write_whole(folder / "whole", "", 0644);
}

}  // namespace

// Never in the place of another: jobs that an agent before this one started still see theirs.
SandboxHome::SandboxHome(const fs::path& folder, const fs::path& guard_library)
    : folder_(folder / fingerprint_of(guard_library)), guarded_(!guard_library.empty()) {
  make_folder(folder, 0755);
  if (!fs::exists(folder_ / "whole")) {
    remove_tree(folder_);
    build(folder_, guard_library);
  }
  remove_oldest(folder, folder_);
}

std::vector<Bind> SandboxHome::binds() const {
  std::vector<Bind> binds{{(folder_ / "etc").string(), "/etc", BindKind::kReadOnly}};
  for (const char* name : kShown) {
    const std::string place = std::string("/etc/") + name;
    if (fs::is_directory(folder_ / "etc" / name)) binds.push_back({place, place, BindKind::kReadOnly});
  }
  return binds;
}

std::string SandboxHome::name_servers(NetworkKind network) const {
  if (network == NetworkKind::kNode) return "/etc/resolv.conf";
  return network == NetworkKind::kPrivate ? (folder_ / "resolv.conf").string() : "";
}

std::vector<Bind> SandboxHome::device_binds(const std::string& tenant_socket, bool cuda) const {
  std::vector<Bind> binds{{(folder_ / "run").string(), "/run/tranche", BindKind::kReadOnly}};
  if (!tenant_socket.empty())
    binds.push_back({tenant_socket, "/run/tranche/guard.sock", BindKind::kReadOnly});
  if (cuda && guarded_)
    binds.push_back({(folder_ / "ld.so.preload").string(), "/etc/ld.so.preload", BindKind::kReadOnly});
  return binds;
}

}  // namespace tranche::agent
