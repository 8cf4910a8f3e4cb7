// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_home.hpp"

#include <array>

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
                                "alternatives",
                                "localtime",
                                "ssl/certs",
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
constexpr const char* kGuardInside = "/run/tranche/lib/libtranche-guard.so";

void copy_if_there(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (!fs::exists(from, ignored)) return;
  fs::create_directories(to.parent_path(), ignored);
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks, ignored);
}

void build_etc(const fs::path& etc, bool guarded) {
  make_folder(etc, 0755);
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

}  // namespace

SandboxHome::SandboxHome(const fs::path& folder, const fs::path& guard_library)
    : folder_(folder), guarded_(!guard_library.empty()) {
  remove_tree(folder);
  make_folder(folder, 0755);
  build_etc(folder / "etc", guarded_);
  const fs::path run = folder / "run";
  fs::create_directories(run / "lib");
  fs::create_directories(run / "opencl");
  write_whole(run / "guard.sock", "", 0644);
  write_whole(folder / "resolv.conf", std::string("nameserver ") + kNameServerInside + "\n", 0644);
  write_whole(folder / "ld.so.preload", std::string(kGuardInside) + "\n", 0644);
  if (guarded_) fs::copy_file(guard_library, run / "lib/libtranche-guard.so");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/etc/OpenCL/vendors", ignored))
    fs::copy_file(entry.path(), run / "opencl" / entry.path().filename(), ignored);
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (!entry.is_symlink())
      fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0755) : fs::perms(0644), ignored);
}

std::vector<Bind> SandboxHome::binds() const {
  return {{(folder_ / "etc").string(), "/etc", BindKind::kReadOnly}};
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
