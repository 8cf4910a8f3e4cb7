// SPDX-License-Identifier: Apache-2.0
// quota: what a party and all below it may hold and use.
#include <set>

#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/quota_flags.hpp"
#include "wire/api_party.hpp"

namespace tranche::cli {
namespace {

using wire::QuotaView;

std::string route_of(const std::string& party) {
  return "/v1/quotas/" + path_segment(party);
}

// "acme/research/ana" -> platform, acme, acme/research: everything whose limits also bind it.
std::vector<std::string> parties_above(const std::string& path) {
  std::vector<std::string> above;
  if (path == "platform") return above;
  above.emplace_back("platform");
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    above.push_back(path.substr(0, slash));
  }
  return above;
}

using Rows = std::vector<QuotaRow>;

// What is used and nobody on the way says anything about is left out, but for GPUs: it stops nobody.
void keep_what_is_limited(std::vector<Rows>& way) {
  std::set<std::string> limited{"GPUs"};
  for (const Rows& rows : way)
    for (const QuotaRow& row : rows)
      if (row.guaranteed != "-" || row.limit != "-") limited.insert(row.what);
  for (Rows& rows : way)
    std::erase_if(rows, [&](const QuotaRow& row) { return !limited.contains(row.what); });
}

// The whole way down from the platform, because the tightest limit is often not one's own.
Table tree_table(const std::vector<QuotaView>& way, bool all) {
  std::vector<Rows> rows_of;
  for (const QuotaView& view : way) rows_of.push_back(quota_rows(view));
  if (!all) keep_what_is_limited(rows_of);
  Table table({{"PARTY"},
               {"WHAT"},
               {"GUARANTEED", Align::kRight},
               {"USED", Align::kRight},
               {"LIMIT", Align::kRight}});
  for (std::size_t depth = 0; depth < way.size(); ++depth) {
    const std::string& path = way[depth].path;
    std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
    if (depth > 0) {
      std::string branch(2 * (depth - 1), ' ');
      name.insert(0, branch += "└ ");
    }
    const Rows& rows = rows_of[depth];
    if (rows.empty()) table.add({name, "-", "-", "-", "-"});
    for (std::size_t row = 0; row < rows.size(); ++row) {
      table.add({row == 0 ? std::string_view(name) : std::string_view(),
                 rows[row].what,
                 rows[row].guaranteed,
                 rows[row].used,
                 rows[row].limit});
    }
  }
  return table;
}

void print(Session& session, const Answer<QuotaView>& answer) {
  const auto table = [&] {
    std::vector<QuotaView> way;
    for (const std::string& party : parties_above(answer.value.path)) {
      const auto above = session.try_call({.path = route_of(party)});
      if (!above || above->status != 200) continue;  // Not everyone may look all the way up.
      way.push_back(Session::parsed<QuotaView>(above->body));
    }
    way.push_back(answer.value);
    return tree_table(way, session.output() != Output::kTable);
  };
  session.print(answer.body, {.table = table, .names = [&] { return answer.value.path + "\n"; }});
}

struct SetOptions {
  std::string party{};
  std::vector<std::vector<std::string>> values{};  // In the order of quota_flags().
  std::vector<std::string> clear{};
};

void set(Session& session, const SetOptions& options) {
  const auto flags = quota_flags();
  const auto check = [](const Result<void, std::string>& changed) {
    if (!changed) throw usage_failure(changed.error(), "see: tranche quota set --help");
  };
  wire::Quota probe;  // Bad values are found before anything is asked of the server.
  bool any = !options.clear.empty();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    for (const std::string& value : options.values[i]) check(set_quota_flag(probe, flags[i].name, value));
    any = any || !options.values[i].empty();
  }
  if (!any) throw usage_failure("nothing to change was given", "see: tranche quota set --help");
  const std::string party = session.party_or_default(options.party, "the party");
  const auto now = session.get<QuotaView>(route_of(party), Explain::kPreparation);
  wire::Quota quota = now.value.quota;
  for (const std::string& name : options.clear) check(clear_quota_flag(quota, name));
  for (std::size_t i = 0; i < flags.size(); ++i) {
    for (const std::string& value : options.values[i]) check(set_quota_flag(quota, flags[i].name, value));
  }
  print(session,
        session.ask<QuotaView>({.method = "PUT",
                                .path = route_of(party),
                                .body = wire::to_json(quota),
                                .if_match = now.value.version}));
}

void add_set(const Command& group, Program& program) {
  const auto options = std::make_shared<SetOptions>();
  const auto flags = quota_flags();
  options->values.resize(flags.size());
  const Command& command =
      add_command(group,
                  {"set",
                   "Change parts of a quota; what is not named stays",
                   "tranche quota set acme --gpus 16 --guaranteed-gpus 8 --vram 640GB\n"
                   "tranche quota set acme/research --device H100=2 --sku small=4 --max-time 8h\n"
                   "tranche quota set acme/research --clear gpus --clear device=H100"});
  command.add_option("party", options->party, "Id or path; else --subscriber");
  for (std::size_t i = 0; i < flags.size(); ++i) {
    command
        .add_option("--" + std::string(flags[i].name),
                    options->values[i],
                    std::string(flags[i].about) + ", such as " + std::string(flags[i].example))
        .type_name("")
        .repeatable();
  }
  command.add_option("--clear", options->clear, "Say nothing about this any more; may be repeated")
      .type_name("NAME")
      .repeatable();
  command.callback([options, &program] { set(program.session(), *options); });
}

}  // namespace

void add_quota_commands(const Command& root, Program& program) {
  const Command& group =
      add_group(root, {"quota", "What a party and all below it may hold and use", "tranche quota show acme"});
  const auto party = std::make_shared<std::string>();
  const Command& show = add_command(group,
                                    {"show",
                                     "Guaranteed, used and limit, from the platform down to the party",
                                     "tranche quota show acme/research\n"
                                     "tranche quota show acme -o json"});
  show.add_option("party", *party, "Id or path; else --subscriber");
  show.callback([party, &program] {
    Session& session = program.session();
    print(session, session.get<QuotaView>(route_of(session.party_or_default(*party, "the party"))));
  });
  add_set(group, program);
}

}  // namespace tranche::cli
