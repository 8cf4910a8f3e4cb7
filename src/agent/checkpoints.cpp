// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoints.hpp"

#include <algorithm>
#include <charconv>

#include "agent/checkpoint_archive.hpp"
#include "agent/files.hpp"
#include "wire/agent_message.hpp"
#include "wire/codec.hpp"

namespace tranche::agent {

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
  write_whole(folder_.string() + ".notes", record, 0600);
}

bool Checkpoints::keep(wire::CheckpointNote& note) const {
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
  const std::filesystem::path old = folder_.string() + ".old";
  remove_tree(old);
  std::error_code missing;
  std::filesystem::rename(folder_, old, missing);
  std::filesystem::rename(fresh, folder_);
  remove_tree(old);
}

}  // namespace tranche::agent
