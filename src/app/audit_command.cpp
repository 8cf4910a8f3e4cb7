// SPDX-License-Identifier: Apache-2.0
// audit: who did what, and is the history what was written? Lives here because checking a file needs no
// server, only the journal's own rules.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "journal/verify.hpp"
#include "wire/api_job.hpp"

namespace tranche::app {
namespace {

using cli::Align;
using cli::Session;
using cli::Table;
using wire::AuditEntry;
using wire::AuditList;
using wire::AuditVerdict;

struct ListOptions {
  std::string actor{}, action{};
  std::size_t limit = 50;
};

// What nobody asked for was done by a node, by the calendar, or by the platform itself.
std::string who(const AuditEntry& entry) {
  if (!entry.actor_path.empty()) return entry.actor_path;
  if (entry.actor.value != 0) return text(entry.actor);
  return entry.origin.empty() || entry.origin == "local" ? "(platform)" : "(" + entry.origin + ")";
}

std::string whom(const AuditEntry& entry) {
  if (!entry.about_path.empty()) return entry.about_path;
  return entry.about.value == 0 ? std::string() : text(entry.about);
}

Table table_of(const std::vector<AuditEntry>& entries) {
  Table table({{"SEQUENCE", Align::kRight},
               {"AT"},
               {"ACTOR"},
               {"ACTION"},
               {"OUTCOME"},
               {"ABOUT"},
               {"FROM", Align::kLeft, cli::Show::kWide},
               {"REQUEST", Align::kLeft, cli::Show::kWide}});
  for (const AuditEntry& entry : entries) {
    table.add({std::to_string(entry.sequence),
               cli::local_time_text(entry.at),
               who(entry),
               entry.action,
               entry.outcome,
               whom(entry),
               entry.origin,
               entry.request_id});
  }
  return table;
}

void list(Session& session, const ListOptions& options) {
  std::string path = "/v1/audit?limit=" + std::to_string(std::min<std::size_t>(options.limit, 1000));
  if (!options.actor.empty()) path += "&actor=" + cli::path_segment(options.actor);
  if (!options.action.empty()) path += "&action=" + cli::path_segment(options.action);
  const auto answer = session.get_all<AuditList>(path, options.limit);
  session.print(answer.body,
                {.table = [&] { return table_of(answer.value.items); },
                 .names =
                     [&] {
                       std::string names;
                       for (const AuditEntry& entry : answer.value.items)
                         names += std::to_string(entry.sequence) + "\n";
                       return names;
                     }});
}

AuditVerdict verify_file(const std::filesystem::path& path, const std::string& key_file) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw cli::Failure(cli::kNotFound, {"there is no " + path.string()});
  }
  journal::VerifyOptions options;
  if (!key_file.empty()) {
    std::string hex = cli::read_file_or_stdin(key_file);
    while (!hex.empty() && (hex.back() == '\n' || hex.back() == ' ')) hex.pop_back();
    if (!journal::from_hex(hex, options.public_key.emplace()))
      throw cli::usage_failure(key_file + " holds no public key of 64 hexadecimal digits");
  }
  const journal::Verification found = journal::verify(path, options);
  return {.intact = found.outcome == journal::Verification::Outcome::kIntact,
          .records = found.records,
          .checkpoints = found.checkpoints,
          .signed_through = found.signed_through,
          .first_bad = found.first_bad,
          .why = found.why,
          .head = journal::to_hex(found.head)};
}

std::string counted(std::uint64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

std::string signatures(const AuditVerdict& verdict) {
  if (verdict.checkpoints == 0) return "none of them signed yet: the server signs every minute";
  return counted(verdict.checkpoints, "signed checkpoint") + ", the last at record " +
         std::to_string(verdict.signed_through);
}

void show(Session& session, const std::string& body, const AuditVerdict& verdict) {
  const auto lines = [&] {
    std::string out = verdict.intact ? "intact" : "NOT INTACT";
    out += "  " + counted(verdict.records, "record") + ", " + signatures(verdict) + "\n";
    if (!verdict.intact) out += "first bad: " + std::to_string(verdict.first_bad) + ": " + verdict.why + "\n";
    return out + "head " + verdict.head + "\n";
  };
  const auto table = [&] {
    Table rows(
        {{"INTACT"}, {"RECORDS"}, {"CHECKPOINTS"}, {"SIGNED THROUGH"}, {"FIRST BAD"}, {"WHY"}, {"HEAD"}});
    rows.add({verdict.intact ? "yes" : "no",
              std::to_string(verdict.records),
              std::to_string(verdict.checkpoints),
              std::to_string(verdict.signed_through),
              std::to_string(verdict.first_bad),
              verdict.why,
              verdict.head});
    return rows;
  };
  session.print(body, {.table = table, .text = lines, .names = [&] { return verdict.head + "\n"; }});
  if (!verdict.intact) throw cli::quiet_end(cli::kOther);
}

void add_verify(const cli::Command& group, cli::Program& program) {
  struct Options {
    std::string file{}, key{};
  };
  const auto options = std::make_shared<Options>();
  const cli::Command command =
      cli::add_command(group,
                       {"verify",
                        "Find any changed, removed, inserted or reordered entry, and name the first",
                        "tranche audit verify\n"
                        "tranche audit verify --file export.jsonl --public-key server.pub"});
  command.add_option("--file", options->file, "An export, or a server's data folder: needs no server")
      .type_name("PATH");
  command.add_option("--public-key", options->key, "File with the key to trust, instead of the one inside")
      .type_name("FILE");
  command.callback([options, &program] {
    Session& session = program.session();
    if (!options->file.empty()) {
      const AuditVerdict verdict = verify_file(options->file, options->key);
      return show(session, wire::to_json(verdict), verdict);
    }
    const auto answer = session.get<AuditVerdict>("/v1/audit/verify");
    show(session, answer.body, answer.value);
  });
}

}  // namespace

void add_audit_commands(const cli::Command& root, cli::Program& program) {
  const cli::Command group =
      cli::add_group(root, {"audit", "Who did what, and proof of it", "tranche audit list"});
  const auto options = std::make_shared<ListOptions>();
  const cli::Command listing = cli::add_command(group,
                                                {"list",
                                                 "Changes and denials, newest first",
                                                 "tranche audit list --actor acme/research/ana --limit 20"});
  listing.add_option("--actor", options->actor, "Only by this party").type_name("PARTY");
  listing.add_option("--action", options->action, "Only this action, such as submit_job").type_name("ACTION");
  listing.add_option("--limit", options->limit, "At most so many; else 50").type_name("COUNT");
  listing.callback([options, &program] { list(program.session(), *options); });
  add_verify(group, program);
  const cli::Command exporting = cli::add_command(group,
                                                  {"export",
                                                   "All of it as JSON Lines with hashes and signatures",
                                                   "tranche audit export > export.jsonl"});
  exporting.callback(
      [&program] { cli::write_stdout(program.session().call({.path = "/v1/audit/export"}).body); });
}

}  // namespace tranche::app
