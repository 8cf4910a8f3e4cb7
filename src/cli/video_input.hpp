// SPDX-License-Identifier: Apache-2.0
#pragma once
// A clip becomes pieces that can be worked on apart, and what was made of them becomes one clip again. ffmpeg
// on this machine does both; pieces begin at key frames, so that nothing is coded twice and no frame is lost.
#include <filesystem>
#include <string>

#include "wire/job_spec.hpp"

namespace tranche::cli {

struct VideoOptions {
  std::string input{};          // Empty: no clip.
  std::string by = "seconds";   // Of `segment`: seconds or frames.
  std::string segment = "10s";  // At least so long each; the next key frame ends it.
};

// A folder that is gone with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Throws Failure where the command names a clip and nothing says which.
void need_no_clip(const wire::JobSpec& job);
// Cuts the clip into `folder` and makes the job one unit a piece, with {input} and {output} in its command
// filled in. Throws Failure.
void cut_video(const VideoOptions& options, const std::filesystem::path& folder, wire::JobSpec& job);
// All pieces in `folder`, by name.
void join_video(const std::filesystem::path& folder, const std::filesystem::path& output);

}  // namespace tranche::cli
