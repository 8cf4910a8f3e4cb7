// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.hpp"

#include "cli/human.hpp"
#include "wire/fields.hpp"

namespace tranche::cli {
namespace {

using wire::TopDevice;
using wire::TopQueue;
using wire::TopSlice;
using wire::TopView;

std::string percent(std::int64_t milli) {
  return std::to_string((milli + 5) / 10) + "%";
}

template <class T, class Text>
std::string or_dash(const std::optional<T>& value, const Text& text) {
  return value ? text(*value) : "-";
}

std::string gigabytes_of(const Bytes& bytes) {
  return bytes_text(bytes.count);
}

struct Sum {
  std::int64_t devices = 0, busy = 0, measured = 0, promised = 0;
};

std::string sum_text(const char* what, const Sum& sum) {
  if (sum.devices == 0) return {};
  std::string out = std::string(what) + " " + std::to_string(sum.devices) + " gpu  promised " +
                    percent(sum.promised / sum.devices);
  out += "  busy " + (sum.measured == 0 ? std::string("-") : percent(sum.busy / sum.measured));
  return out + "   ";
}

std::string fleet_line(const TopView& view) {
  Sum real, simulated;
  for (const TopDevice& device : view.devices) {
    Sum& sum = device.simulated ? simulated : real;
    ++sum.devices;
    sum.promised += device.milli_used;
    if (!device.busy_milli) continue;
    ++sum.measured;
    sum.busy += *device.busy_milli;
  }
  return "fleet  " + sum_text("REAL", real) + sum_text("SIM", simulated) + "\n";
}

std::vector<std::string> device_cells(const TopDevice& device) {
  return {
      device.node + (device.simulated ? " SIM" : ""),
      device.model,
      device.connected ? std::string(wire::name_of(device.state)) : "silent",
      or_dash(device.busy_milli, [](std::int64_t milli) { return percent(milli); }),
      or_dash(device.vram_used, gigabytes_of) + "/" + bytes_text(device.vram.count),
      or_dash(device.power_milliwatts, [](std::int64_t milli) { return std::to_string(milli / 1000) + "W"; }),
      or_dash(device.temperature_celsius, [](std::int64_t c) { return std::to_string(c) + "C"; })};
}

std::vector<std::string> slice_cells(const TopSlice& slice) {
  const bool foreign = slice.job == JobId{};
  return {foreign ? "(not yours)" : text(slice.job),
          slice.owner,
          slice.name,
          or_dash(slice.busy_milli, [](std::int64_t milli) { return percent(milli); }) + "/" +
              percent(slice.milli),
          or_dash(slice.vram_used, gigabytes_of) + "/" + bytes_text(slice.vram.count)};
}

}  // namespace

Table top_table(const TopView& view) {
  Table table({{"NODE"},
               {"MODEL"},
               {"STATE"},
               {"BUSY", Align::kRight},
               {"VRAM", Align::kRight},
               {"POWER", Align::kRight},
               {"TEMP", Align::kRight},
               {"JOB"},
               {"OWNER"},
               {"NAME"},
               {"JOB BUSY", Align::kRight},
               {"JOB VRAM", Align::kRight}});
  for (const TopDevice& device : view.devices) {
    std::vector<std::string> row = device_cells(device);
    if (device.slices.empty()) {
      row.resize(12);
      table.add(row);
    }
    for (const TopSlice& slice : device.slices) {
      std::vector<std::string> both = row;
      for (std::string& cell : slice_cells(slice)) both.push_back(std::move(cell));
      table.add(both);
    }
  }
  return table;
}

std::string top_text(const TopView& view) {
  std::string out = fleet_line(view);
  if (!view.queues.empty()) {
    Table queues({{"TENANT"},
                  {"RUNNING", Align::kRight},
                  {"GPUS", Align::kRight},
                  {"WAITING", Align::kRight},
                  {"LONGEST", Align::kRight}});
    for (const TopQueue& queue : view.queues)
      queues.add({queue.tenant + (queue.simulated ? " SIM" : ""),
                  std::to_string(queue.running),
                  gpus_text(queue.gpu_milli),
                  std::to_string(queue.pending),
                  queue.pending == 0 ? "-" : age_text(queue.longest_wait)});
    out += queues.text();
  }
  out += top_table(view).text();
  return out;
}

}  // namespace tranche::cli
