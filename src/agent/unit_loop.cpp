// SPDX-License-Identifier: Apache-2.0
#include "agent/unit_loop.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

#include "agent/descriptor.hpp"
#include "agent/files.hpp"
#include "base/text.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kUnitsInside = "/run/job/units";
constexpr const char* kResultsInside = "/run/job/results";
constexpr const char* kOutputInside = "/work/output";

// How one unit runs and ends. A good unit whose results cannot be kept is not good. The clock is read without
// a process where the kernel shows it, to hundredths of a second.
constexpr std::string_view kLoop = R"sh(tranche_bad=0
tranche_newline='
'
mkdir -p "$TRANCHE_OUTPUT"
tranche_now() {
  if read -r tranche_up tranche_rest 2>/dev/null </proc/uptime; then
    tranche_at=$((${tranche_up%.*} * 1000 + (1${tranche_up#*.} - 100) * 10))
  else
    tranche_at=$(date +%s%3N)
  fi
}
tranche_made() {
  for tranche_file in "$TRANCHE_OUTPUT"/* "$TRANCHE_OUTPUT"/.[!.]* "$TRANCHE_OUTPUT"/..?*; do
    if [ -e "$tranche_file" ] || [ -L "$tranche_file" ]; then return 0; fi
  done
  return 1
}
tranche_unit() {
  tranche_now
  tranche_began=$tranche_at
  (
    exec 9<&-
    export TRANCHE_UNIT="$1"
    tranche_command=$2
    shift 2
    eval "$tranche_command"
  )
  tranche_code=$?
  tranche_now
  if tranche_made; then
    if [ "$tranche_code" -eq 0 ]; then
      tar -C "$TRANCHE_OUTPUT" -cf - . >>"$TRANCHE_RESULTS" || tranche_code=74
    fi
    find "$TRANCHE_OUTPUT" -mindepth 1 -delete 2>/dev/null
  fi
  tranche_ms=$((tranche_at - tranche_began))
  if [ "$tranche_code" -eq 0 ]; then
    echo "tranche: done @NAME@ $1 ms=$tranche_ms" >>"$TRANCHE_PROGRESS"
  else
    tranche_bad=1
    echo "tranche: failed @NAME@ $1 code=$tranche_code ms=$tranche_ms" >>"$TRANCHE_PROGRESS"
  fi
}
while IFS= read -r tranche_line <&9; do eval "$tranche_line"; done 9<@FILE@
exit $tranche_bad
)sh";

// As one word of a line, whatever is in it.
std::string quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "'", "'\\''"), "\n", "'\"$tranche_newline\"'") + "'";
}

void make_file(const std::string& path, std::string_view content, unsigned mode, std::uint32_t uid) {
  write_whole(path, content, mode);
  if (uid != 0 && ::chown(path.c_str(), uid, uid) != 0)
    throw std::runtime_error("cannot give " + path + " to the job's user: " + std::strerror(errno));
}

}  // namespace

std::string unit_name(const wire::JobSpec& spec) {
  if (!spec.units || spec.units->empty()) return {};
  std::string name = spec.units->begin()->first;
  if (name.size() > 1 && name.ends_with('s')) name.pop_back();
  return name;
}

std::string unit_loop(const std::string& name, const std::string& file) {
  return replaced(replaced(std::string(kLoop), "@NAME@", name), "@FILE@", file);
}

std::string unit_lines(const std::string& command, const std::string& name, const wire::UnitSet& units) {
  std::string lines;
  for (const wire::UnitRange& range : units)
    for (std::int64_t unit = range.first; unit <= range.last; ++unit)
      lines += "tranche_unit " + std::to_string(unit) + " " + quoted(wire::command_for(command, name, unit)) +
               "\n";
  return lines;
}

void append_units(const std::filesystem::path& lease_folder, const std::string& lines) {
  const Descriptor file(
      ::open((lease_folder / "units").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!file.open() || ::write(file.get(), lines.data(), lines.size()) != static_cast<ssize_t>(lines.size()))
    throw std::runtime_error("cannot add units to " + lease_folder.string() + ": " + std::strerror(errno));
}

void add_progress_files(SandboxPlan& plan, const wire::LeaseGrant& grant) {
  make_file(plan.folder + "/progress", "", 0600, plan.uid);
  plan.binds.push_back({plan.folder + "/progress", kProgressInside, BindKind::kWritable});
  plan.environment.set("TRANCHE_PROGRESS", kProgressInside);
  const std::string name = unit_name(grant.spec);
  if (name.empty()) return;
  if (grant.units
          .empty()) {  // A chunk whose last unit was settled before its node was lost has nothing to do.
    if (plan.run.find("{" + name) != std::string::npos) plan.run = "true";
    return;
  }
  const std::string command = replaced(plan.run, "{output}", kOutputInside);
  write_whole(plan.folder + "/" + kUnitCommand, command, 0600);
  make_file(plan.folder + "/units", unit_lines(command, name, grant.units), 0644, plan.uid);
  make_file(plan.folder + "/results", "", 0600, plan.uid);
  plan.binds.push_back({plan.folder + "/units", kUnitsInside, BindKind::kReadOnly});
  plan.binds.push_back({plan.folder + "/results", kResultsInside, BindKind::kWritable});
  plan.environment.set("TRANCHE_RESULTS", kResultsInside);
  plan.environment.set("TRANCHE_OUTPUT", kOutputInside);
  plan.run = unit_loop(name, kUnitsInside);
}

}  // namespace tranche::agent
