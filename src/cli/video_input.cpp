// SPDX-License-Identifier: Apache-2.0
#include "cli/video_input.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/wait.h>

#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/human.hpp"

namespace tranche::cli {
namespace {

// What the program says; throws when it fails.
std::string output_of(const std::string& command, const std::string& what) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw Failure(kOther, {what + " could not be started"});
  std::string out;
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    out.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw Failure(kOther,
                  {"ffmpeg is not installed here, and cuts and joins clips", "apt-get install ffmpeg"});
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Failure(kOther, {what + " failed", "see its words above"});
  return out;
}

double probed(const std::string& entries, const std::string& input) {
  const std::string said = output_of("ffprobe -v error -select_streams v:0 -show_entries " + entries +
                                         " -of default=noprint_wrappers=1:nokey=1 " + shell_quoted(input),
                                     "ffprobe");
  char* end = nullptr;
  const double value = std::strtod(said.c_str(), &end);
  if (*end != '/') return value;  // Rates are said as 30000/1001.
  const double below = std::strtod(end + 1, nullptr);
  return below > 0 ? value / below : 0;
}

double segment_seconds(const VideoOptions& options) {
  double seconds = 0;
  if (options.by == "frames") {
    const double rate = probed("stream=avg_frame_rate", options.input);
    if (rate > 0) seconds = std::strtod(options.segment.c_str(), nullptr) / rate;
  } else if (options.by == "seconds") {
    if (const auto length = parse_duration(options.segment))
      seconds = static_cast<double>(length->count()) / 1e6;
  } else {
    throw usage_failure("--by takes frames or seconds, not '" + options.by + "'");
  }
  if (seconds < 0.1)
    throw usage_failure("--segment takes a length such as 10s, or with --by frames a number such as 250");
  return seconds;
}

constexpr const char* kList = "pieces.csv";

// "piece_00001.mkv,0.000000,10.010000": where each begins and ends in the clip.
std::vector<Duration> lengths_of_pieces(const std::filesystem::path& list) {
  std::vector<Duration> lengths;
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(','), second = line.find(',', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const double from = std::strtod(line.c_str() + first + 1, nullptr);
    const double to = std::strtod(line.c_str() + second + 1, nullptr);
    lengths.emplace_back(std::chrono::milliseconds(std::max(0LL, std::llround((to - from) * 1000))));
  }
  return lengths;
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tranche-video-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw Failure(kOther, {"no folder could be made for the clip"});
  path_ = pattern;
}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void need_no_clip(const wire::JobSpec& job) {
  if (job.kind == wire::WorkloadKind::kVideo && !job.units && job.run.find("{input}") != std::string::npos)
    throw usage_failure("the command names {input}, and nothing says which clip that is",
                        "give --input clip.mp4");
}

void cut_video(const VideoOptions& options, const std::filesystem::path& folder, wire::JobSpec& job) {
  if (job.run.find("{input}") == std::string::npos || job.run.find("{output}") == std::string::npos)
    throw usage_failure(
        "--input needs {input} and {output} in the command",
        "for example: tranche run --kind video --input clip.mp4 -- ffmpeg -i {input} -vf hflip {output}");
  if (job.units || !job.workdir.empty())
    throw usage_failure("--input brings its own pieces: leave --frames and --workdir out");
  std::error_code missing;
  if (!std::filesystem::is_regular_file(options.input, missing))
    throw usage_failure("there is no clip " + options.input);
  const double seconds = segment_seconds(options);
  output_of("ffmpeg -nostdin -v error -i " + shell_quoted(options.input) +
                " -map 0 -c copy -f segment -segment_time " + std::to_string(seconds) +
                " -segment_start_number 1 -reset_timestamps 1 -segment_list_type csv -segment_list " +
                shell_quoted((folder / kList).string()) + " " +
                shell_quoted((folder / "piece_%05d.mkv").string()),
            "ffmpeg");
  std::vector<Duration> lengths = lengths_of_pieces(folder / kList);
  std::filesystem::remove(folder / kList);
  const auto pieces = std::distance(std::filesystem::directory_iterator(folder), {});
  if (pieces == 0) throw Failure(kOther, {options.input + " holds nothing to work on"});
  if (static_cast<std::size_t>(pieces) != lengths.size())
    throw Failure(
        kOther,
        {"ffmpeg made " + std::to_string(pieces) + " pieces and lists " + std::to_string(lengths.size())});
  job.run = replaced(std::move(job.run), "{input}", "piece_{unit:05}.mkv");
  job.run = replaced(std::move(job.run), "{output}", "{output}/piece_{unit:05}.mkv");
  job.units = std::map<std::string, wire::UnitRange>{{"units", {.first = 1, .last = pieces}}};
  if (!job.media) job.media = wire::MediaUse{};
  job.media->pieces = std::move(lengths);
  job.workdir = folder.string();
}

void join_video(const std::filesystem::path& folder, const std::filesystem::path& output) {
  std::vector<std::string> pieces;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("piece_"))
      pieces.push_back(entry.path().filename().string());
  if (pieces.empty()) throw Failure(kOther, {"the job made no pieces to join"});
  std::sort(pieces.begin(), pieces.end());
  {
    std::ofstream list(folder / "list");
    for (const std::string& piece : pieces) list << "file '" << piece << "'\n";
  }
  output_of("ffmpeg -nostdin -v error -y -f concat -safe 0 -i " + shell_quoted((folder / "list").string()) +
                " -map 0 -c copy " + shell_quoted(output.string()),
            "ffmpeg");
}

}  // namespace tranche::cli
