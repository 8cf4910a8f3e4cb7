// SPDX-License-Identifier: Apache-2.0
#include "server/workdir_store.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

#include "net/digest.hpp"

namespace tranche::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScheme = "sha256:";
constexpr std::string_view kPart = ".part";

std::uint64_t size_of(const fs::path& file) {
  std::error_code missing;
  const auto size = fs::file_size(file, missing);
  return missing ? 0 : size;
}

std::string digest_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  net::Sha256 hash;
  std::string piece(1U << 20U, '\0');
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    hash.add(std::string_view(piece).substr(0, static_cast<std::size_t>(in.gcount())));
  return std::string(kScheme) + hash.hex();
}

}  // namespace

WorkdirStore::WorkdirStore(fs::path folder, WorkdirLimits limits)
    : folder_(std::move(folder)), limits_(limits) {
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
}

bool WorkdirStore::is_digest(std::string_view text) {
  return text.starts_with(kScheme) && text.size() == kScheme.size() + 64 &&
         text.find_first_not_of("0123456789abcdef", kScheme.size()) == std::string_view::npos;
}

fs::path WorkdirStore::path_of(PartyId tenant, std::string_view digest) const {
  return folder_ / text(tenant) / digest.substr(kScheme.size());
}

WorkdirHeld WorkdirStore::held(PartyId tenant, std::string_view digest) const {
  const fs::path file = path_of(tenant, digest);
  std::error_code ignored;
  if (fs::exists(file, ignored)) return {size_of(file), true};
  return {size_of(file.string() + std::string(kPart)), false};
}

// Of what is complete and longest unused, until there is room.
bool WorkdirStore::make_room(PartyId tenant, std::uint64_t bytes) const {
  std::vector<std::pair<fs::file_time_type, fs::path>> all;
  std::uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_ / text(tenant), ignored)) {
    all.emplace_back(entry.last_write_time(ignored), entry.path());
    sum += size_of(entry.path());
  }
  std::sort(all.begin(), all.end());
  for (const auto& [at, file] : all) {
    if (sum + bytes <= limits_.tenant_bytes_max) break;
    sum -= size_of(file);
    fs::remove(file, ignored);
  }
  return sum + bytes <= limits_.tenant_bytes_max;
}

Result<WorkdirHeld, std::string> WorkdirStore::put(PartyId tenant,
                                                   std::string_view digest,
                                                   std::uint64_t size,
                                                   std::uint64_t offset,
                                                   std::string_view bytes) {
  if (size > limits_.one_bytes_max)
    return refuse("a working directory has at most " + std::to_string(limits_.one_bytes_max >> 20U) +
                  " MiB; keep data in a volume");
  const std::lock_guard lock(mutex_);
  const WorkdirHeld before = held(tenant, digest);
  if (before.complete || offset != before.bytes) return before;
  if (offset + bytes.size() > size) return refuse(std::string("more bytes than were announced"));
  const fs::path file = path_of(tenant, digest);
  const fs::path part = file.string() + std::string(kPart);
  fs::create_directories(file.parent_path());
  if (offset == 0 && !make_room(tenant, size)) return refuse(std::string("there is no room for it"));
  {
    std::ofstream out(part, std::ios::binary | std::ios::app);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) return refuse(std::string("the server has no room for it"));
  }
  if (offset + bytes.size() < size) return WorkdirHeld{offset + bytes.size(), false};
  if (digest_of(part) != digest) {
    fs::remove(part);
    return refuse(std::string("the bytes are not those that the digest names; upload it again"));
  }
  fs::rename(part, file);
  return WorkdirHeld{size, true};
}

std::optional<std::string> WorkdirStore::read(PartyId tenant,
                                              std::string_view digest,
                                              std::uint64_t offset,
                                              std::size_t most) const {
  std::ifstream in(path_of(tenant, digest), std::ios::binary);
  if (!in) return std::nullopt;
  std::string bytes(most, '\0');
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  return bytes;
}

void WorkdirStore::use(PartyId tenant, std::string_view digest) const {
  std::error_code ignored;
  fs::last_write_time(path_of(tenant, digest), fs::file_time_type::clock::now(), ignored);
}

}  // namespace tranche::server
