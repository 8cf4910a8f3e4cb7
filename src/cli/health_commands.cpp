// SPDX-License-Identifier: Apache-2.0
// health and receipts: whether devices are fit, and the proofs behind a job. Who mends them: repair_commands.
#include <algorithm>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/fleet_commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "wire/api_health.hpp"

namespace tranche::cli {
namespace {

using wire::HealthBoard;
using wire::ReceiptBook;

// What was not as it should be, or how much was.
std::string found_by(const wire::AcceptanceReceipt& test) {
  std::string out;
  std::size_t passed = 0;
  for (const wire::TestOutcome& row : test.tests) {
    if (row.verdict == wire::Verdict::kPass) {
      ++passed;
      continue;
    }
    out += (out.empty() ? "" : "; ") + row.name + ' ' + std::string(wire::name_of(row.verdict));
    if (!row.detail.empty()) out += ": " + row.detail;
  }
  return out.empty() ? std::to_string(passed) + " of " + std::to_string(passed) + " passed" : out;
}

// Those that need somebody first.
std::vector<wire::DeviceHealth> by_state(std::vector<wire::DeviceHealth> devices) {
  const auto rank = [](const wire::DeviceHealth& one) {
    return std::pair(one.state == wire::DeviceState::kHealthy, wire::name_of(one.state));
  };
  std::stable_sort(
      devices.begin(), devices.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return devices;
}

Table board_table(const HealthBoard& board) {
  Table table({{"DEVICE"},
               {"NODE"},
               {"MODEL"},
               {"STATE"},
               {"SINCE"},
               {"HEALTH"},
               {"JOBS", Align::kRight},
               {"LAST TEST"},
               {"TESTED", Align::kLeft, Show::kWide},
               {"FOUND", Align::kLeft, Show::kWide},
               {"SIGNALS", Align::kRight},
               {"LAST SIGNAL"},
               {"SEEN", Align::kLeft, Show::kWide},
               {"TEXT", Align::kLeft, Show::kWide}});
  for (const wire::DeviceHealth& device : by_state(board.items)) {
    std::string test = "-";
    if (device.last_test)
      test = (device.simulated ? "SIM " : "") + std::string(wire::name_of(device.last_test->level)) + ' ' +
             std::string(wire::name_of(device.last_test->verdict));
    std::string last = "-", seen = "-", words = "-";
    if (!device.signals.empty()) {
      const wire::SignalView& signal = device.signals.back();
      last = signal.source + ' ' + std::to_string(signal.code) + " -> " + signal.action;
      seen = local_time_text(signal.at);
      words = signal.text;
    }
    table.add({text(device.device),
               device.node,
               device.model,
               wire::name_of(device.state),
               local_time_text(device.since),
               device.health,
               std::to_string(device.leases),
               test,
               device.last_test ? local_time_text(device.last_test->at) : "-",
               device.last_test ? found_by(*device.last_test) : "-",
               std::to_string(device.signals.size()),
               last,
               seen,
               words});
  }
  return table;
}

Show columns_of(const Session& session) {
  return session.output() == Output::kWide ? Show::kWide : Show::kAlways;
}

std::string board_text(const HealthBoard& board, Show columns) {
  std::string out = board.items.empty() ? "" : board_table(board).text(columns) + "\n";
  for (const auto& [state, count] : board.states) out += state + " " + std::to_string(count) + "  ";
  out += "\nsignal table " + board.table_version + "; new devices are tested at level " +
         std::string(wire::name_of(board.acceptance)) + "; " + std::to_string(board.left_lately) +
         " left service lately";
  if (board.breaker_open)
    out += "\nTHE BREAKER IS OPEN since " + local_time_text(board.breaker_since) +
           ": nothing is drained by itself; when the cause is known: tranche health breaker close";
  return out + "\n";
}

void add_health(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"health", "Whether devices are fit for tenants", "tranche health board"});
  add_command(group,
              {"board",
               "Every device you answer for, by state, with evidence",
               "tranche health board\ntranche health board -o wide"})
      .callback([&program] {
        Session& session = program.session();
        const auto answer = session.get<HealthBoard>("/v1/health");
        session.print(answer.body,
                      {.table = [&] { return board_table(answer.value); },
                       .text = [&] { return board_text(answer.value, columns_of(session)); }});
      });
  const auto wanted = std::make_shared<std::string>();
  const Command& breaker = add_command(group,
                                       {"breaker",
                                        "Stop automatic drains, or let them go on after the breaker opened",
                                        "tranche health breaker close"});
  breaker.add_option("open-or-close", *wanted, "open stops automatic drains, close lets them go on")
      .required();
  breaker.callback([wanted, &program] {
    if (*wanted != "open" && *wanted != "close") throw usage_failure("the breaker is set to open or close");
    Session& session = program.session();
    const auto answer = session.ask<wire::BreakerChange>(
        {.method = "PUT",
         .path = "/v1/health/breaker",
         .body = wire::to_json(wire::BreakerChange{.open = *wanted == "open"})});
    session.print(answer.body, {.table = [&] {
                    Table table({{"BREAKER"}});
                    table.add({answer.value.open ? "open" : "closed"});
                    return table;
                  }});
  });
  const auto file = std::make_shared<std::string>();
  const Command& policy =
      add_command(group,
                  {"policy",
                   "Show what signals lead to and which tests are asked for, or replace it",
                   "tranche health policy > health.yaml\ntranche health policy --file health.yaml"});
  policy.add_option("--file", *file, "YAML or JSON; '-' is stdin").type_name("FILE");
  policy.callback([file, &program] {
    Session& session = program.session();
    Call call{.path = "/v1/health/policy"};
    if (!file->empty()) call = {.method = "PUT", .path = call.path, .body = read_file_or_stdin(*file)};
    const auto response = session.call(call);
    const bool for_people = session.output() == Output::kTable || session.output() == Output::kWide;
    if (for_people && !file->empty())
      return session.say("in force from now on; tranche health policy shows all of it");
    write_stdout(for_people || session.output() == Output::kYaml ? yaml_of_json(response.body)
                                                                 : indented_json(response.body));
  });
}

Table receipts_table(const ReceiptBook& book) {
  Table table({{"LEASE"},
               {"NODE"},
               {"DEVICE"},
               {"PROOF"},
               {"RESULT"},
               {"AT"},
               {"RECORD", Align::kRight},
               {"HASH", Align::kLeft, Show::kWide}});
  const auto row = [&](const wire::LeaseReceipts& lease,
                       DeviceId device,
                       std::string_view what,
                       const std::string& result,
                       Instant at,
                       const wire::JournalProof& proof) {
    table.add({text(lease.lease),
               lease.simulated ? lease.node + " SIM" : lease.node,
               text(device),
               what,
               result,
               local_time_text(at),
               std::to_string(proof.sequence),
               proof.record_hash});
  };
  const auto add_wipes = [&](const wire::LeaseReceipts& lease, bool after) {
    for (const wire::ProvenScrub& one : lease.scrubs)
      if ((one.receipt.lease == lease.lease) == after)
        row(lease,
            one.receipt.device,
            after ? "wiped after it" : "wiped before it",
            one.clean ? text(one.receipt.verified) + " read back" : "NOT CLEAN",
            one.receipt.at,
            one.proof);
  };
  for (const wire::LeaseReceipts& lease : book.leases) {
    add_wipes(lease, false);
    for (const wire::ProvenTest& one : lease.acceptances)
      row(lease,
          one.receipt.device,
          "test before it",
          std::string(wire::name_of(one.receipt.level)) + ' ' +
              std::string(wire::name_of(one.receipt.verdict)),
          one.receipt.at,
          one.proof);
    for (const wire::ProvenLimit& one : lease.limits)
      row(lease,
          one.receipt.device,
          "limits held",
          text(one.receipt.vram_peak) + " of " + text(one.receipt.vram_limit),
          one.receipt.to,
          one.proof);
    add_wipes(lease, true);
  }
  return table;
}

void add_receipts(const Command& root, Program& program) {
  const auto job = std::make_shared<std::string>();
  const Command& command = add_command(root,
                                       {"receipts",
                                        "Tests, wipes and limits behind a job, read back from the journal",
                                        "tranche receipts job_00007K\ntranche receipts job_00007K -o wide"});
  command.add_option("job", *job, "Id, as `ps` shows it").required();
  command.callback([job, &program] {
    Session& session = program.session();
    const auto answer = session.get<ReceiptBook>("/v1/jobs/" + path_segment(*job) + "/receipts");
    session.print(
        answer.body,
        {.table = [&] { return receipts_table(answer.value); },
         .text =
             [&] {
               std::string notes;
               for (const wire::LeaseReceipts& lease : answer.value.leases)
                 if (!lease.hand_over.empty())
                   notes += "\n" + text(lease.lease) + ": " + lease.hand_over + "\n";
               return receipts_table(answer.value).text(columns_of(session)) + notes +
                      (answer.value.verified
                           ? "\nevery proof was read back from the journal; the whole chain: tranche "
                             "audit verify\n"
                           : "\nNOT COMPLETE: a proof is missing, or its devices are being wiped still\n");
             }});
  });
}

}  // namespace

void add_health_commands(const Command& root, Program& program) {
  add_health(root, program);
  add_repair_commands(root, program);
  add_receipts(root, program);
}

}  // namespace tranche::cli
