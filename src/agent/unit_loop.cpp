// SPDX-License-Identifier: Apache-2.0
#include "agent/unit_loop.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <unistd.h>

#include "agent/files.hpp"
#include "base/text.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kUnitsInside = "/run/job/units";
constexpr const char* kResultsInside = "/run/job/results";
constexpr const char* kOutputInside = "/work/output";

// What comes before the units: how one of them ends. A good unit whose results cannot be kept is not good.
constexpr std::string_view kEpilogue = R"sh(tranche_bad=0
mkdir -p "$TRANCHE_OUTPUT"
tranche_clear() { find "$TRANCHE_OUTPUT" -mindepth 1 -delete 2>/dev/null; }
tranche_end() {
  tranche_ms=$(($(date +%s%3N) - $3))
  tranche_code=$2
  if [ "$tranche_code" -eq 0 ] && [ -n "$(ls -A "$TRANCHE_OUTPUT" 2>/dev/null)" ]; then
    tar -C "$TRANCHE_OUTPUT" -cf - . >>"$TRANCHE_RESULTS" || tranche_code=74
  fi
  tranche_clear
  if [ "$tranche_code" -eq 0 ]; then
    echo "tranche: done @NAME@ $1 ms=$tranche_ms" >>"$TRANCHE_PROGRESS"
  else
    tranche_bad=1
    echo "tranche: failed @NAME@ $1 code=$tranche_code ms=$tranche_ms" >>"$TRANCHE_PROGRESS"
  fi
}
)sh";

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

std::string unit_loop(const std::string& command, const std::string& name, const wire::UnitSet& units) {
  std::string script = replaced(std::string(kEpilogue), "@NAME@", name);
  for (const wire::UnitRange& range : units) {
    for (std::int64_t unit = range.first; unit <= range.last; ++unit) {
      const std::string number = std::to_string(unit);
      script += "tranche_began=$(date +%s%3N)\n(\nexport TRANCHE_UNIT=" + number + "\n" +
                wire::command_for(command, name, unit) + "\n)\ntranche_end " + number +
                " $? \"$tranche_began\"\n";
    }
  }
  return script + "exit $tranche_bad\n";
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
  make_file(plan.folder + "/units", unit_loop(command, name, grant.units), 0644, plan.uid);
  make_file(plan.folder + "/results", "", 0600, plan.uid);
  plan.binds.push_back({plan.folder + "/units", kUnitsInside, BindKind::kReadOnly});
  plan.binds.push_back({plan.folder + "/results", kResultsInside, BindKind::kWritable});
  plan.environment.set("TRANCHE_RESULTS", kResultsInside);
  plan.environment.set("TRANCHE_OUTPUT", kOutputInside);
  plan.run = ". " + std::string(kUnitsInside);
}

}  // namespace tranche::agent
