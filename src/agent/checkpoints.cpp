// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoints.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "agent/checkpoint_archive.hpp"
#include "agent/files.hpp"
#include "wire/agent_message.hpp"
#include "wire/codec.hpp"

namespace tranche::agent {
namespace {

// What a job calls whole survives a power loss from then on; a link that leads out leads to nothing but a
// sync.
void make_durable(const std::filesystem::path& path) {
  const auto sync = [](const std::filesystem::path& one) {
    const Descriptor file(::open(one.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.open()) ::fsync(file.get());  // A pipe has nothing to sync, and says so.
  };
  std::error_code gone;
  if (std::filesystem::is_directory(path, gone)) {
    for (std::filesystem::recursive_directory_iterator at(path, gone), end; !gone && at != end;
         at.increment(gone))
      sync(at->path());
  }
  sync(path);
  sync(path.parent_path());
}

}  // namespace

Checkpoints::Checkpoints(std::filesystem::path data, JobId job)
    : folder_(std::move(data) / "checkpoints" / text(job)) {}

CheckpointNotes Checkpoints::notes() const {
  const auto record = read_whole(folder_.string() + ".notes");
  if (!record) return {};
  auto read = wire::decode<wire::ProgressReport>(*record);
  return read ? std::move(read->checkpoints) : CheckpointNotes{};
}

void Checkpoints::set_notes(const CheckpointNotes& notes) const {
  std::string record;
  wire::encode(record, wire::ProgressReport{.checkpoints = notes});
  write_whole(folder_.string() + ".notes", record, 0600, true);
}

bool Checkpoints::keep(wire::CheckpointNote& note) const {
  make_durable(folder_ / note.name);
  const auto digested = digest_in(folder_, note.name);
  if (!digested) return false;
  note.bytes = digested->bytes;
  note.digest = digested->digest;
  CheckpointNotes all = notes();
  std::erase_if(all, [&](const wire::CheckpointNote& one) { return one.name == note.name; });
  all.push_back(note);
  if (all.size() > wire::kCheckpointsKept) all.erase(all.begin());
  set_notes(all);
  return true;
}

void Checkpoints::forget() const {
  remove_tree(folder_);
  remove_tree(new_folder());
  std::error_code ignored;
  std::filesystem::remove(folder_.string() + ".notes", ignored);
  std::filesystem::remove(folder_.string() + ".attempt", ignored);
}

std::uint32_t Checkpoints::attempt() const {
  const std::string text = read_whole(folder_.string() + ".attempt").value_or("");
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void Checkpoints::set_attempt(std::uint32_t attempt) const {
  write_whole(folder_.string() + ".attempt", std::to_string(attempt), 0600);
}

Checkpoints::Resume Checkpoints::last_good() const {
  Resume resume;
  CheckpointNotes all = notes();
  for (auto note = all.rbegin(); note != all.rend(); ++note) {
    const auto now = digest_in(folder_, note->name);
    if (now && now->digest == note->digest) {
      resume.name = note->name;
      return resume;
    }
    resume.damaged.push_back(note->name);
  }
  return resume;
}

void Checkpoints::replace(const std::filesystem::path& fresh) const {
  make_durable(fresh);
  // There is no moment without one: whoever is killed here leaves the old one or the new one.
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder_.c_str(), RENAME_EXCHANGE) != 0)
    std::filesystem::rename(fresh, folder_);  // There is none yet.
  remove_tree(fresh);
}

}  // namespace tranche::agent
