// SPDX-License-Identifier: Apache-2.0
#include "agent/progress_reader.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/descriptor.hpp"

namespace tranche::agent {
namespace {

constexpr std::uint64_t kLookMost = 256 * 1024;
constexpr std::size_t kLineMost = 1024;
constexpr std::uint64_t kFileMost = 1024 * 1024;  // Then it is begun anew, so that it costs no disk.
constexpr std::size_t kVerdictsMost = 10'000;
constexpr BootTime kFirst = 100'000'000, kShortest = 10 * kFirst, kLongest = 60 * kShortest;

}  // namespace

void ProgressReader::looked(BootTime now) {
  if (first_ == 0) first_ = now;
  const BootTime age = now - first_;
  due_ = now + (age < 2 * kShortest ? std::clamp(age / 2, kFirst, kShortest)
                                    : std::clamp(age / 50, kShortest, kLongest));
}

void ProgressReader::take(std::string_view line) {
  auto parsed = wire::parse_progress_line(line);
  if (!parsed) return;
  fresh_ = true;
  if (!parsed->checkpoint.empty()) {  // Of many said at once the last ones count.
    auto& all = found_.checkpoints;
    std::erase_if(all, [&](const wire::CheckpointNote& one) { return one.name == parsed->checkpoint; });
    all.push_back({.name = parsed->checkpoint});
    if (all.size() > wire::kCheckpointsKept) all.erase(all.begin());
    return;
  }
  if (parsed->verdict) {
    if (found_.verdicts.size() < kVerdictsMost) found_.verdicts.push_back(*parsed->verdict);
    return;
  }
  found_.unit = parsed->unit;
  found_.done = parsed->done;
  found_.total = parsed->total;
  found_.metrics = std::move(parsed->metrics);
}

// The tenant may have put anything there: no link is followed, nothing but a file is read.
void ProgressReader::read(const std::filesystem::path& path,
                          Source& source,
                          std::uint64_t written,
                          bool may_skip) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!file.open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  const auto size = std::min(written, static_cast<std::uint64_t>(info.st_size));
  if (size < source.offset) source = {};
  if (may_skip && size - source.offset > kLookMost) {
    source.offset = size - kLookMost;
    source.rest.assign(1, '?');  // The middle of a line, most likely.
  }
  std::string piece(std::min(size - source.offset, kLookMost), '\0');
  const ssize_t got = ::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(source.offset));
  if (got <= 0) return;
  piece.resize(static_cast<std::size_t>(got));
  source.offset += static_cast<std::uint64_t>(got);
  std::size_t at = 0;
  for (std::size_t end = 0; (end = piece.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view line(piece.data() + at, end - at);
    if (source.rest.empty()) {
      take(line);
    } else {
      take(source.rest.append(line));
      source.rest.clear();
    }
  }
  if (source.rest.size() < kLineMost) source.rest.append(piece, at, kLineMost);
  const bool all_read = source.offset >= static_cast<std::uint64_t>(info.st_size);
  if (!may_skip && all_read && source.offset > kFileMost && ::ftruncate(file.get(), 0) == 0) source = {};
}

std::optional<wire::ProgressReport> ProgressReader::look(const std::filesystem::path& folder,
                                                         std::uint64_t stdout_written) {
  fresh_ = false;
  found_ = {};
  read(folder / "stdout", stdout_, stdout_written, true);
  std::uint64_t before = 0;
  do {  // Verdicts are never passed over.
    before = file_.offset;
    read(folder / "progress", file_, UINT64_MAX, false);
  } while (file_.offset > before && found_.verdicts.size() < kVerdictsMost);
  if (!fresh_) return std::nullopt;
  return found_;
}

}  // namespace tranche::agent
