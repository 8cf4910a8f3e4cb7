// SPDX-License-Identifier: Apache-2.0
// What a supervisor notices of its job beside its exit: how many processes, how much memory, what it was
// refused, and whether its volumes stay within their quotas.
#include <algorithm>
#include <cstdlib>
#include <fcntl.h>

#include "agent/cgroup_files.hpp"
#include "agent/files.hpp"
#include "agent/shim.hpp"
#include "base/text.hpp"

namespace tranche::agent {
namespace {

// "NSpid:\t4711\t17": the number inside the innermost namespace, where counting began at one.
std::uint64_t number_inside(int pid) {
  const std::string status = get_control("/proc/" + std::to_string(pid) + "/status");
  const auto line = status.find("NSpid:");
  if (line == std::string::npos) return 0;
  const std::string numbers = status.substr(line + 6, status.find('\n', line) - line - 6);
  const auto last = numbers.find_last_of("\t ");
  return last == std::string::npos ? 0 : std::strtoull(numbers.c_str() + last, nullptr, 10);
}

void append_lines(const std::string& file, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  const Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  // What cannot be written down is missing from the record, and from nothing else.
  static_cast<void>(out.open() && ::write(out.get(), text.data(), text.size()) > 0);
}

void raise(LeasePage::Word64& word, std::uint64_t value) {
  if (value > word.load()) word = value;
}

}  // namespace

void Supervisor::watch_processes() {
  constexpr std::size_t kLookedAt = 64;  // The newest; a fork bomb is not worth reading in full.
  std::vector<int> running = world_.cgroups->processes(group_);
  raise(page_->processes_most, running.size());
  std::sort(running.rbegin(), running.rend());
  if (running.size() > kLookedAt) running.resize(kLookedAt);
  for (const int pid : running) raise(page_->highest_process, number_inside(pid));
}

void Supervisor::note_behaviour() {
  const CgroupUse use = world_.cgroups->use(group_);
  raise(page_->processes_most, use.processes_most);
  page_->processes_refused = use.processes_refused;
  page_->memory_most = use.memory_most;
  page_->memory_kills = world_.cgroups->memory_kills(group_);
  page_->cpu_microseconds = use.cpu_microseconds;
  page_->throttled_microseconds = use.throttled_microseconds;
}

// Beside the lease's page, a line each; the agent puts them into the record.
void Supervisor::note_peers() {
  std::vector<std::string> peers = network_.peers(world_.network);
  if (plan_.network == NetworkKind::kGang)
    for (std::size_t rank = 0; rank < plan_.gang.members.size(); ++rank)
      if (rank != plan_.gang.rank) peers.push_back("gang rank " + std::to_string(rank));
  append_lines(plan_.folder + "/peers", peers);
}

void Supervisor::note_files() {
  files_.take();
  if (!files_.watches()) return;
  append_lines(plan_.folder + "/files", files_.paths());
  page_->files_watched = 1;
  page_->files_more = files_.more();
}

// A volume may be full; it may not grow beyond that. One that was over its quota before can be tidied up.
void Supervisor::watch_volumes() {
  const bool first = volume_bytes_.empty();
  for (std::size_t i = 0; i < plan_.volumes.size(); ++i) {
    const VolumeWatch& volume = plan_.volumes[i];
    const std::uint64_t found = first ? UINT64_MAX : std::max(volume.bytes, volume_bytes_[i]);
    const TreeSize size = tree_size(AT_FDCWD, volume.folder.c_str(), {.bytes = found, .files = UINT64_MAX});
    if (first) {
      volume_bytes_.push_back(size.bytes);
    } else if (size.bytes > found) {
      kill_job(wire::EndReason::kDiskLimit,
               "the volume at " + volume.inside + " would hold more than its " +
                   text(Bytes{static_cast<std::int64_t>(volume.bytes)}));
    }
  }
}

}  // namespace tranche::agent
