// SPDX-License-Identifier: Apache-2.0
#include "agent/lease_folder.hpp"

#include <cstring>
#include <stdexcept>
#include <unistd.h>

#include "agent/files.hpp"

namespace tranche::agent {

LeaseFolder LeaseFolder::create(const std::filesystem::path& leases,
                                const wire::LeaseGrant& grant,
                                std::uint32_t uid) {
  LeaseFolder folder(leases / text(grant.lease));
  remove_tree(folder.path_);  // Of a lease that ended before this boot, at most.
  make_folder(folder.path_, 0711);
  for (const char* name : {"work", "tmp"}) {
    make_folder(folder.path_ / name, 0700);
    if (uid != 0 && ::chown((folder.path_ / name).c_str(), uid, uid) != 0)
      throw std::runtime_error("cannot give scratch to the job's user: " + std::string(std::strerror(errno)));
  }
  folder.page_ = std::make_unique<MappedLeasePage>(folder.path_ / "page");
  folder.grant = grant;
  folder.grant.spec.secrets = {};
  folder.grant.volume_key.clear();
  folder.grant.gang_key.clear();
  std::string bytes;
  wire::encode(bytes, folder.grant);
  write_whole(folder.path_ / "grant", bytes, 0600);  // Last: a folder with a grant is whole.
  return folder;
}

std::optional<LeaseFolder> LeaseFolder::open(const std::filesystem::path& path) {
  const std::optional<std::string> bytes = read_whole(path / "grant");
  if (!bytes) return std::nullopt;
  auto grant = wire::decode<wire::LeaseGrant>(*bytes);
  if (!grant) return std::nullopt;
  LeaseFolder folder(path);
  folder.grant = std::move(*grant);
  folder.page_ = std::make_unique<MappedLeasePage>(path / "page");
  return folder;
}

std::string LeaseFolder::message() const {
  return read_whole(path_ / "message").value_or("");
}

void LeaseFolder::forget() {
  page_.reset();
  remove_tree(path_);
}

}  // namespace tranche::agent
