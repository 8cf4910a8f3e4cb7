// SPDX-License-Identifier: Apache-2.0
// book, maintenance: capacity at a time of one's own choosing.
#include <cstdio>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/price_plan.hpp"
#include "wire/api_booking.hpp"

namespace tranche::cli {
namespace {

using wire::BookingList;
using wire::BookingView;
using wire::WindowView;

// What `book` and `maintenance plan` both ask: when.
struct Timing {
  std::string from{}, length{}, zone{}, every{}, until{};
  std::uint32_t times = 0;
};

void add_timing(const Command& command, Timing& timing) {
  command.add_option("--from", timing.from, "'tomorrow 09:00', 'mon 09:00', '2026-11-20 14:00', 'in 2h', now")
      .type_name("TIME");
  command.add_option("--for", timing.length, "How long, such as 3h").type_name("DURATION");
  command.add_option("--tz", timing.zone, "Zone of the times, such as Europe/Madrid; else your account's")
      .type_name("ZONE");
  command
      .add_option(
          "--every", timing.every, "day, weekday, weekend, week, month, mon,wed or an RRULE (RFC 5545)")
      .type_name("RULE");
  command.add_option("--times", timing.times, "How often it repeats").type_name("COUNT");
  command.add_option("--until", timing.until, "Last date on which it repeats").type_name("DATE");
}

Duration length_of(const Timing& timing) {
  if (timing.from.empty()) throw usage_failure("--from is missing", "for example --from 'tomorrow 09:00'");
  const auto length = parse_duration(timing.length);
  if (!length)
    throw usage_failure(
        timing.length.empty() ? "--for is missing" : "--for takes a duration, not '" + timing.length + "'",
        "for example --for 3h");
  return *length;
}

// FROM/TO instead of --from and --for; TO is a length, or both are RFC 3339.
void read_window(const std::string& window, Timing& timing) {
  if (window.empty()) return;
  const std::size_t slash = window.find('/');
  if (slash == std::string::npos || !timing.from.empty() || !timing.length.empty())
    throw usage_failure("--window takes FROM/TO, instead of --from and --for",
                        "for example --window 'sat 22:00/4h'");
  timing.from = window.substr(0, slash);
  timing.length = window.substr(slash + 1);
  if (parse_duration(timing.length)) return;
  const auto opens = parse_instant(timing.from), closes = parse_instant(timing.length);
  if (!opens || !closes)
    throw usage_failure(
        "--window ends with a length, or both of its times are like 2026-11-21T22:00:00Z, not '" + window +
            "'",
        "for example --window 'sat 22:00/4h'");
  if (*closes <= *opens) throw usage_failure("--window ends after it begins, not '" + window + "'");
  timing.length = text(*closes - *opens);
}

// The window that is open, or else the next one.
const WindowView* next_window(const BookingView& booking) {
  for (const WindowView& window : booking.windows)
    if (window.state != wire::WindowState::kClosed) return &window;
  return nullptr;
}

Table booking_table(const std::vector<BookingView>& bookings) {
  Table table({{"BOOKING"},
               {"STATE"},
               {"GPUS"},
               {"OPENS"},
               {"CLOSES"},
               {"WINDOWS", Align::kRight},
               {"OWNER"},
               {"NAME"},
               {"ZONE", Align::kLeft, Show::kWide},
               {"REPEATS", Align::kLeft, Show::kWide},
               {"KIND", Align::kLeft, Show::kWide}});
  for (const BookingView& booking : bookings) {
    const WindowView* next = next_window(booking);
    std::size_t left = 0;
    for (const WindowView& window : booking.windows) left += window.state != wire::WindowState::kClosed;
    const bool open = next != nullptr && next->state == wire::WindowState::kOpen;
    table.add({text(booking.id),
               open ? "open" : wire::name_of(booking.state),
               booking.gpus.empty() ? gpus_text(booking.gpu_milli) : booking.gpus,
               next == nullptr ? "-" : next->from_local,
               next == nullptr ? "-" : next->to_local,
               std::to_string(left) + "/" + std::to_string(booking.windows.size()),
               booking.owner,
               booking.name,
               booking.zone,
               booking.recurrence.empty() ? "once" : booking.recurrence,
               wire::name_of(booking.kind)});
  }
  return table;
}

Table window_table(const BookingView& booking) {
  const bool tested = booking.kind == wire::ClaimKind::kMaintenance;
  Table table({{"OPENS"},
               {"TESTS FROM", Align::kLeft, tested ? Show::kAlways : Show::kWide},
               {"CLOSES"},
               {"STATE"},
               {"DEVICES"}});
  for (const WindowView& window : booking.windows) {
    std::string devices;
    for (const wire::BookedDevice& device : window.devices)
      devices += (devices.empty() ? "" : ", ") + text(device.device) + " on " + device.node;
    table.add({window.from_local,
               tested ? window.tests_local : "-",
               window.to_local,
               wire::name_of(window.state),
               devices});
  }
  return table;
}

std::string booking_text(const BookingView& booking) {
  std::string out;
  const auto line = [&](std::string_view what, std::string_view value) {
    if (!value.empty()) out.append(what).append(12 - what.size(), ' ').append(value).append("\n");
  };
  line("booking", text(booking.id));
  line("kind", booking.kind == wire::ClaimKind::kBooking ? "" : wire::name_of(booking.kind));
  line("contract", booking.contract);
  line("name", booking.name);
  line("state", wire::name_of(booking.state));
  line("owner", booking.owner);
  line("gpus", booking.gpus + (booking.simulated ? " (SIMULATED)" : ""));
  line("zone", booking.zone);
  line("repeats", booking.recurrence);
  if (booking.environment.layer != wire::Layer::kEmbedded)
    line("layer", wire::name_of(booking.environment.layer));
  line("driver", booking.environment.driver);
  line("runtime", booking.environment.runtime);
  for (const std::string& volume : booking.environment.volumes) line("volume", volume);
  return out + "\n" + window_table(booking).text();
}

void show(Session& session, const Answer<BookingView>& answer) {
  session.print(answer.body,
                {.table = [&] { return window_table(answer.value); },
                 .text = [&] { return booking_text(answer.value); },
                 .names = [&] { return text(answer.value.id) + "\n"; }});
}

struct BookOptions {
  Timing timing{};
  std::string gpus{}, name{}, owner{}, isolation{}, layer{}, driver{}, runtime{};
  std::vector<std::string> volumes{};
  std::uint32_t nodes = 1;
  bool simulated = false, dry_run = false;
};

void book(Session& session, const BookOptions& options) {
  if (options.gpus.empty()) throw usage_failure("say what to book", "for example: tranche book H100:0.5");
  wire::BookingAsk ask{.gpus = options.gpus,
                       .from = options.timing.from,
                       .length = length_of(options.timing),
                       .zone = options.timing.zone,
                       .every = options.timing.every,
                       .times = options.timing.times,
                       .until = options.timing.until,
                       .name = options.name,
                       .owner = options.owner.empty() ? session.target().subscriber : options.owner,
                       .isolation = options.isolation,
                       .nodes = options.nodes,
                       .simulated = options.simulated};
  if (!options.layer.empty()) ask.environment.layer = enum_value<wire::Layer>("--layer", options.layer);
  ask.environment.driver = options.driver;
  ask.environment.runtime = options.runtime;
  ask.environment.volumes = options.volumes;
  if (options.dry_run)
    return show_price_plan(
        session,
        session.ask<wire::PricePlan>(
            {.method = "POST", .path = "/v1/bookings?dry_run=true", .body = wire::to_json(ask)}));
  const auto answer =
      session.ask<BookingView>({.method = "POST", .path = "/v1/bookings", .body = wire::to_json(ask)});
  show(session, answer);
  session.say("jobs of " + answer.value.owner +
              " that fit start in it; to wait for it: tranche run --label booking=" + text(answer.value.id));
}

// What is listed under `book`, or only the windows that keep nodes free.
void add_list(const Command& group, Program& program, const CommandText& about, bool maintenance_only) {
  const auto all = std::make_shared<bool>(false);
  const Command& command = add_command(group, about);
  command.add_flag("--all", *all, "Also those that are over or cancelled");
  command.callback([all, maintenance_only, &program] {
    Session& session = program.session();
    std::string path = *all ? "/v1/bookings?all=true" : "/v1/bookings";
    if (maintenance_only) path += *all ? "&kind=maintenance" : "?kind=maintenance";
    const auto answer = session.get<BookingList>(path);
    session.print(answer.body,
                  {.table = [&] { return booking_table(answer.value.items); },
                   .names =
                       [&] {
                         std::string names;
                         for (const BookingView& booking : answer.value.items)
                           names += text(booking.id) + "\n";
                         return names;
                       }});
    if (answer.value.items.empty())
      session.say(maintenance_only ? "nothing is planned; see: tranche maintenance plan --help"
                                   : "nothing is booked; see: tranche book --help");
  });
}

void add_show(const Command& group, Program& program) {
  const auto id = std::make_shared<std::string>();
  const Command& command =
      add_command(group, {"show", "Show a booking and its windows", "tranche book show clm_000001"});
  command.add_option("booking", *id, "Id, as `book list` shows it").required();
  command.callback([id, &program] {
    Session& session = program.session();
    show(session, session.get<BookingView>("/v1/bookings/" + path_segment(*id)));
  });
}

void add_cancel(const Command& group, Program& program, const CommandText& about) {
  const auto id = std::make_shared<std::string>();
  const Command& command = add_command(group, about);
  command.add_option("id", *id, "Id, as `list` shows it").required();
  command.callback([id, &program] {
    Session& session = program.session();
    session.confirm("Cancel " + *id + "? Work that runs in it is checkpointed and queued again.");
    session.call({.method = "DELETE", .path = "/v1/bookings/" + path_segment(*id)});
    session.say("cancelled " + *id);
  });
}

void add_ics(const Command& group, Program& program) {
  const auto id = std::make_shared<std::string>();
  const Command& command = add_command(group,
                                       {"ics",
                                        "Print bookings as iCalendar, for calendar programs",
                                        "tranche book ics > bookings.ics\ntranche book ics clm_000001"});
  command.add_option("booking", *id, "One booking; else all that you may see");
  command.callback([id, &program] {
    Session& session = program.session();
    const std::string path = id->empty() ? "/v1/bookings.ics" : "/v1/bookings/" + path_segment(*id) + "/ics";
    const net::Response response = session.call({.path = path});
    std::fwrite(response.body.data(), 1, response.body.size(), stdout);
  });
}

void add_maintenance(const Command& root, Program& program) {
  struct Options {
    Timing timing{};
    std::string node{}, name{}, window{};
  };
  const Command& group = add_group(
      root, {"maintenance", "Times at which a node is kept free of work", "tranche maintenance plan --help"});
  add_list(group,
           program,
           {"list", "List what is planned", "tranche maintenance list\ntranche maintenance list --all"},
           true);
  add_cancel(
      group, program, {"cancel", "Take back what is planned", "tranche maintenance cancel clm_000001 -y"});
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(
      group,
      {"plan",
       "Plan a window; work is told to leave before it opens",
       "tranche maintenance plan --node gpu-01 --from 'sat 22:00' --for 4h --tz Europe/Madrid\n"
       "tranche maintenance plan --node gpu-01 --window 2026-11-21T22:00:00Z/2026-11-22T02:00:00Z"});
  command.add_option("--node", options->node, "Name or id").type_name("NODE").required();
  command.add_option("--name", options->name, "What for; tenants see it").type_name("TEXT");
  command.add_option("--window", options->window, "FROM/TO, instead of --from and --for; TO may be a length")
      .type_name("WINDOW");
  add_timing(command, options->timing);
  command.callback([options, &program] {
    Session& session = program.session();
    Timing timing = options->timing;
    read_window(options->window, timing);
    const wire::MaintenanceAsk ask{.node = options->node,
                                   .from = timing.from,
                                   .length = length_of(timing),
                                   .zone = timing.zone,
                                   .every = timing.every,
                                   .times = timing.times,
                                   .until = timing.until,
                                   .name = options->name};
    const auto answer =
        session.ask<BookingView>({.method = "POST", .path = "/v1/maintenance", .body = wire::to_json(ask)});
    show(session, answer);
    session.say("the devices are tested when the work is over; bookings begin when the window closes");
  });
}

}  // namespace

void add_book_commands(const Command& root, Program& program) {
  const auto options = std::make_shared<BookOptions>();
  const Command& command =
      add_command(root,
                  {"book",
                   "Book capacity for a window of time, once or again and again",
                   "tranche book H100:0.5 --from 'tomorrow 09:00' --for 3h --tz Europe/Madrid\n"
                   "tranche book A100-80GB:2 --from 'mon 09:00' --for 8h --every weekday --until 2026-12-18\n"
                   "tranche book H100 --from 22:00 --for 8h --every 'FREQ=MONTHLY;BYDAY=1SA;COUNT=6'"});
  command.add_option("gpus", options->gpus, "H100:0.5, 10GB, A100-80GB:2, ...");
  add_timing(command, options->timing);
  command.add_option("--name", options->name, "For people").type_name("NAME");
  command.add_option("--owner", options->owner, "Who may use it, with everyone below; else yourself")
      .type_name("PARTY");
  command.add_option("--isolation", options->isolation, "dedicated, hard or soft").type_name("CLASS");
  command.add_option("--nodes", options->nodes, "Members of a gang, each on a node").type_name("COUNT");
  command.add_option("--layer", options->layer, "embedded, slurm or kubernetes").type_name("LAYER");
  command.add_option("--driver", options->driver, "Version of the driver, such as 535").type_name("VERSION");
  command.add_option("--runtime", options->runtime, "As nodes label themselves: cuda-12").type_name("NAME");
  command.add_option("--volume", options->volumes, "Volume that must be there; may be repeated")
      .type_name("NAME");
  command.add_flag("--simulated", options->simulated, "On simulated devices");
  command.add_flag("--dry-run", options->dry_run, "Say whether it fits and what it would cost; book nothing");
  add_list(command,
           program,
           {"list",
            "List bookings, what was bought on the market, and maintenance",
            "tranche book list\ntranche book list --all"},
           false);
  add_show(command, program);
  add_cancel(command,
             program,
             {"cancel", "Give back what is booked, all windows of it", "tranche book cancel clm_000001 -y"});
  add_ics(command, program);
  command.callback([options, command, &program] {
    if (!command.subcommand_given()) book(program.session(), *options);
  });
  add_maintenance(root, program);
}

}  // namespace tranche::cli
