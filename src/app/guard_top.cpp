// SPDX-License-Identifier: Apache-2.0
#include "app/guard_top.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "app/guard_run.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "guard/broker_client.hpp"
#include "guard/host_clock.hpp"

namespace tranche::app {
namespace {

struct TopRow {
  std::string tenant;
  guard::DeviceUsage usage;
  double share_percent = 0;
  double used_percent = -1;  // Of the time since the look before; negative: there was none.
  std::uint32_t device = 0, processes = 0;
  bool paused = false;
};

struct Sample {
  std::uint64_t at = 0;
  std::uint64_t device_ns = 0;
};

std::vector<TopRow> look(guard::BrokerClient& broker, std::map<std::string, Sample>& last) {
  std::vector<TopRow> rows;
  const std::uint64_t now = guard::monotonic_ns();
  for (const guard::TenantListing& tenant : broker.list()) {
    for (std::uint32_t i = 0; i < tenant.regions->control().device_count.load(); ++i) {
      TopRow row;
      row.tenant = tenant.name;
      row.usage = guard::usage_of(*tenant.regions, i);
      row.share_percent =
          tenant.regions->control().devices[i].lanes[0].share.load() * 100.0 / guard::kShareWhole;
      row.device = tenant.limits.devices[i].physical;
      row.processes = tenant.processes;
      row.paused = tenant.limits.devices[i].paused != 0;
      Sample& before = last[tenant.name + "/" + std::to_string(i)];
      // What was charged too much is given back, so device time may fall a little.
      const auto gained = static_cast<std::int64_t>(row.usage.device_ns - before.device_ns);
      if (before.at != 0)
        row.used_percent = static_cast<double>(std::max<std::int64_t>(gained, 0)) * 100.0 /
                           static_cast<double>(now - before.at);
      before = {now, row.usage.device_ns};
      rows.push_back(row);
    }
  }
  return rows;
}

std::string decimals(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string table_of(const std::vector<TopRow>& rows) {
  cli::Table table({{"TENANT"},
                    {"DEVICE"},
                    {"VRAM", cli::Align::kRight},
                    {"PEAK", cli::Align::kRight},
                    {"LIMIT", cli::Align::kRight},
                    {"SHARE", cli::Align::kRight},
                    {"USED", cli::Align::kRight},
                    {"DEVICE TIME", cli::Align::kRight},
                    {"LAUNCHES", cli::Align::kRight},
                    {"WAITED", cli::Align::kRight},
                    {"COPIED", cli::Align::kRight},
                    {"PROCESSES", cli::Align::kRight},
                    {"STATE"}});
  const auto size = [](std::uint64_t bytes) { return text(Bytes{static_cast<std::int64_t>(bytes)}); };
  const auto seconds = [](std::uint64_t ns) { return decimals("%.2fs", static_cast<double>(ns) / 1e9); };
  for (const TopRow& row : rows)
    table.add({row.tenant,
               std::to_string(row.device),
               size(row.usage.vram_used),
               size(row.usage.vram_peak),
               size(row.usage.vram_limit),
               decimals("%.4g%%", row.share_percent),
               row.used_percent < 0 ? "-" : decimals("%.1f%%", row.used_percent),
               seconds(row.usage.device_ns),
               std::to_string(row.usage.launches),
               seconds(row.usage.throttled_ns),
               size(row.usage.copy_bytes),
               std::to_string(row.processes),
               row.paused ? "paused" : "running"});
  return table.text();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string json_of(const TopRow& row) {
  std::string out = "{\"tenant\":" + quoted(row.tenant);
  const auto number = [&](const char* name, std::uint64_t value) {
    out += std::string(",\"") + name + "\":" + std::to_string(value);
  };
  number("device", row.device);
  number("vram_bytes", row.usage.vram_used);
  number("vram_peak_bytes", row.usage.vram_peak);
  number("vram_limit_bytes", row.usage.vram_limit);
  number("refusals", row.usage.refusals);
  out += ",\"share_percent\":" + decimals("%.2f", row.share_percent) +
         ",\"used_percent\":" + (row.used_percent < 0 ? "null" : decimals("%.2f", row.used_percent));
  number("device_ns", row.usage.device_ns);
  number("launches", row.usage.launches);
  number("throttled_ns", row.usage.throttled_ns);
  number("copies", row.usage.copies);
  number("copied_bytes", row.usage.copy_bytes);
  number("copy_ns", row.usage.copy_ns);
  number("processes", row.processes);
  return out + ",\"state\":" + (row.paused ? "\"paused\"}" : "\"running\"}");
}

// One array for each look; as lines, one object for each tenant and device.
std::string json_of(const std::vector<TopRow>& rows, bool lines) {
  std::string out = lines ? "" : "[";
  for (std::size_t i = 0; i < rows.size(); ++i)
    out += json_of(rows[i]) + (lines ? "\n" : (i + 1 < rows.size() ? "," : ""));
  return lines ? out : out + "]\n";
}

void top(const std::string& socket, bool once, const cli::GlobalFlags& flags) {
  const cli::Output form = flags.output.empty() ? cli::Output::kTable : cli::parse_output(flags.output);
  const bool json = form == cli::Output::kJson || form == cli::Output::kJsonl;
  guard::BrokerClient broker(socket.empty() ? default_broker_socket() : socket);
  std::map<std::string, Sample> last;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  for (;;) {
    if (terminal && !once && !json) std::fputs("\033[H\033[J", stdout);
    const std::vector<TopRow> rows = look(broker, last);
    std::fputs((json ? json_of(rows, form == cli::Output::kJsonl) : table_of(rows)).c_str(), stdout);
    std::fflush(stdout);
    if (once) return;
    ::sleep(1);
  }
}

}  // namespace

void add_guard_top(const cli::Command& group, cli::Program& program) {
  const cli::Command watch = cli::add_local_command(group,
                                                    {"top",
                                                     "Watch what tenants of this machine use",
                                                     "tranche guard top --once\ntranche guard top -o jsonl"});
  auto watched = std::make_shared<std::pair<std::string, bool>>();
  watch.add_option("--socket", watched->first, "The broker's socket");
  watch.add_flag("--once", watched->second, "Print once");
  watch.callback([watched, &program] { top(watched->first, watched->second, program.flags); });
}

}  // namespace tranche::app
