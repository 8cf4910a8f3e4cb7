// SPDX-License-Identifier: Apache-2.0
#include "server/checkpoint_store.hpp"

#include <fstream>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace tranche::server {

CheckpointStore::CheckpointStore(std::filesystem::path folder, std::uint64_t bytes_max)
    : folder_(std::move(folder)), bytes_max_(bytes_max) {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::filesystem::path CheckpointStore::path_of(JobId job, LeaseId lease) const {
  return folder_ / text(job) / text(lease);
}

std::string CheckpointStore::put(JobId job, LeaseId lease, std::uint64_t offset, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  Held& held = held_[job][lease];
  if (held.state.is_whole || offset < held.bytes) return {};  // Sent again.
  if (offset > held.bytes) return "a piece of it is missing";
  if (held.bytes + bytes.size() > bytes_max_)
    return "it is larger than the server carries from node to node (" +
           text(Bytes{static_cast<std::int64_t>(bytes_max_)}) +
           "): use a shared volume, or raise --checkpoint-carry";
  const std::filesystem::path path = path_of(job, lease);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | (offset == 0 ? std::ios::trunc : std::ios::app));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return "the server has no room for it";
  held.bytes += bytes.size();
  return {};
}

void CheckpointStore::finish(JobId job, LeaseId lease, std::string digest) {
  const std::lock_guard lock(mutex_);
  held_[job][lease].state = {.is_whole = true, .digest = std::move(digest), .problem = {}};
}

void CheckpointStore::give_up(JobId job, LeaseId lease, std::string why) {
  const std::lock_guard lock(mutex_);
  held_[job][lease] = Held{.bytes = 0, .state = {.is_whole = false, .digest = {}, .problem = std::move(why)}};
}

void CheckpointStore::forget(JobId job) {
  const std::lock_guard lock(mutex_);
  if (held_.erase(job) == 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_ / text(job), ignored);
}

CheckpointStore::State CheckpointStore::state(JobId job, LeaseId lease) const {
  const std::lock_guard lock(mutex_);
  const auto of_job = held_.find(job);
  if (of_job == held_.end()) return {};
  const auto found = of_job->second.find(lease);
  return found == of_job->second.end() ? State{} : found->second.state;
}

std::optional<std::string> CheckpointStore::read(JobId job,
                                                 LeaseId lease,
                                                 std::uint64_t offset,
                                                 std::size_t most) const {
  if (!state(job, lease).is_whole) return std::nullopt;
  std::ifstream file(path_of(job, lease), std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(offset))) return std::nullopt;
  std::string bytes(most, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace tranche::server
