// SPDX-License-Identifier: Apache-2.0
#include "agent/lease_folder.hpp"

#include <cstddef>
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
  folder.grant = grant;
  folder.grant.spec.secrets = {};
  folder.grant.volume_key.clear();
  folder.grant.gang_key.clear();
  // One file for both: making files is most of what a lease costs a disk.
  std::string bytes(kLeasePageBytes, '\0');
  wire::encode(bytes, folder.grant);
  put_file(folder.path_ / "page", bytes, 0600);
  folder.page_ = std::make_unique<MappedLeasePage>(folder.path_ / "page");
  folder.page().grant_bytes.store(bytes.size() - kLeasePageBytes, std::memory_order_release);
  return folder;
}

namespace {

// Behind the page; one that changed since (and those of agents before 0.2) is in a file of its own.
std::optional<std::string> grant_in(const std::filesystem::path& path) {
  if (auto alone = read_whole(path / "grant")) return alone;
  const std::optional<std::string> file = read_whole(path / "page");
  if (!file || file->size() < kLeasePageBytes) return std::nullopt;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, file->data() + offsetof(LeasePage, grant_bytes), sizeof bytes);
  if (bytes == 0 || bytes > file->size() - kLeasePageBytes) return std::nullopt;
  return file->substr(kLeasePageBytes, bytes);
}

}  // namespace

void LeaseFolder::keep_grant() const {
  std::string bytes;
  wire::encode(bytes, grant);
  write_whole(path_ / "grant", bytes, 0600);
}

std::optional<LeaseFolder> LeaseFolder::open(const std::filesystem::path& path) {
  const std::optional<std::string> bytes = grant_in(path);
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
