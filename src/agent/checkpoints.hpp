// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job saved on this node: its folder, what of it the job said is whole, and where another attempt goes
// on. Files of the agent beside the folder are out of the job's reach.
#include <filesystem>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "wire/progress.hpp"

namespace tranche::agent {

using CheckpointNotes = std::vector<wire::CheckpointNote>;

class Checkpoints {
 public:
  Checkpoints(std::filesystem::path data, JobId job);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] CheckpointNotes notes() const;  // The newest last.
  void set_notes(const CheckpointNotes& notes) const;
  // The job said that it is whole: as it is now, with its digest. False: there is no such file or folder.
  bool keep(wire::CheckpointNote& note) const;
  void forget() const;  // All of it.

  // Which attempt's folder this is: gathered once, however many members of the job are here.
  [[nodiscard]] std::uint32_t attempt() const;
  void set_attempt(std::uint32_t attempt) const;

  struct Resume {
    std::string name{};                  // Empty: the job has said nothing of any that is left.
    std::vector<std::string> damaged{};  // Newer ones that are not what they were.
  };
  // The newest that is what it was when the job said so.
  [[nodiscard]] Resume last_good() const;

  // Another folder in its place, in one step. `fresh` is beside it, see new_folder().
  [[nodiscard]] std::filesystem::path new_folder() const { return folder_.string() + ".new"; }
  void replace(const std::filesystem::path& fresh) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tranche::agent
