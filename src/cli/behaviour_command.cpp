// SPDX-License-Identifier: Apache-2.0
// behaviour: what a job did on its nodes, for its tenant and its auditor.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/fleet_commands.hpp"
#include "cli/human.hpp"
#include "wire/api_telemetry.hpp"

namespace tranche::cli {
namespace {

using wire::BehaviourList;
using wire::LeaseBehaviour;

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out.empty() ? "none" : out;
}

Table table_of(const BehaviourList& list) {
  Table table({{"NODE"},
               {"RANK", Align::kRight},
               {"PROCESSES", Align::kRight},
               {"AT ONCE", Align::kRight},
               {"MEMORY", Align::kRight},
               {"CPU", Align::kRight},
               {"DEVICE TIME", Align::kRight},
               {"OUTPUT", Align::kRight},
               {"EXECS", Align::kRight},
               {"NETWORK"},
               {"LIMITS HIT"}});
  for (const LeaseBehaviour& one : list.items) {
    const wire::BehaviourRecord& record = one.record;
    table.add({one.node + (one.simulated ? " SIM" : ""),
               std::to_string(one.rank),
               "≥" + std::to_string(record.processes_started),
               std::to_string(record.processes_most),
               bytes_text(record.memory_most.count),
               text(record.cpu_used),
               text(Duration(one.device_nanoseconds / 1000)),
               bytes_text(record.output.count),
               std::to_string(record.sessions),
               record.network ? "host" : "none",
               joined(record.limits_hit)});
  }
  return table;
}

void add_list(std::string& out, const char* what, const std::vector<std::string>& items, std::uint64_t more) {
  if (items.empty()) return;
  out += std::string("  ") + what + ":\n";
  for (const std::string& item : items) out += "    " + item + "\n";
  if (more != 0) out += "    and " + std::to_string(more) + " more\n";
}

// The table, and below it what does not fit into a row.
std::string text_of(const BehaviourList& list) {
  std::string out = table_of(list).text();
  for (const LeaseBehaviour& one : list.items) {
    const wire::BehaviourRecord& record = one.record;
    std::string more;
    for (const wire::DeviceUse& use : record.devices)
      more +=
          "  " + text(use.device) + ": " + bytes_text(use.vram_counted.count) + " at most of " +
          bytes_text(use.vram_granted.count) + " counted, " +
          (use.vram_reported.count == 0 ? "not told apart by the device"
                                        : bytes_text(use.vram_reported.count) + " reported by the device") +
          "; " + text(use.time_counted) + " counted, " + text(use.time_reported) + " reported\n";
    if (one.energy_millijoules != 0)
      more += "  energy: " + std::to_string(one.energy_millijoules / 1000) + " J\n";
    if (one.copied_bytes + one.network_bytes != 0)
      more += "  moved: " + bytes_text(one.copied_bytes) + " to and from devices, " +
              bytes_text(one.network_bytes) + " over its network\n";
    add_list(more, "went around the guard", record.findings, 0);
    add_list(more, "network peers", record.peers, record.peers_more);
    add_list(more, "files outside of its places", record.files, record.files_more);
    if (!record.files_watched && !one.simulated)
      more += "  files outside of its places: not noted on this node\n";
    if (!more.empty()) out += "\n" + one.node + ", rank " + std::to_string(one.rank) + "\n" + more;
  }
  return out;
}

}  // namespace

void add_behaviour_command(const Command& root, Program& program) {
  const auto job = std::make_shared<std::string>();
  const Command& command = add_command(
      root,
      {"behaviour",
       "What an ended job did on its nodes: processes, network peers, files, devices, limits it hit",
       "tranche behaviour job_00007K\ntranche behaviour job_00007K -o json"});
  command.add_option("job", *job, "Id, as `ps` shows it").required();
  command.callback([job, &program] {
    Session& session = program.session();
    const auto answer = session.get<BehaviourList>("/v1/jobs/" + path_segment(*job) + "/behaviour");
    session.print(answer.body,
                  {.table = [&] { return table_of(answer.value); },
                   .text = [&] { return text_of(answer.value); },
                   .names = [&] { return text(answer.value.job) + "\n"; }});
    if (answer.value.items.empty()) session.say("nothing yet: the record is made when the job ends");
  });
}

}  // namespace tranche::cli
