// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace standin {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// "0:3g.40gb@4": device 0, three compute slices and 40 GiB, starting at memory slice 4.
void add_mig(Config& config, const std::string& text) {
  if (config.mig_count == kMigMax) throw std::invalid_argument("too many MIG instances");
  Config::Mig mig;
  unsigned memory = 0;
  if (std::sscanf(text.c_str(), "%u:%ug.%ugb@%u", &mig.device, &mig.slices, &memory, &mig.start) != 4)
    throw std::invalid_argument("mig wants device:Ng.Mgb@start, not " + text);
  mig.memory_bytes = std::uint64_t{memory} << 30;
  std::snprintf(mig.profile, sizeof mig.profile, "%ug.%ugb", mig.slices, memory);
  config.mig[config.mig_count++] = mig;
  config.mig_enabled |= 1U << mig.device;
}

void set_key(Config& config, const std::string& key, const std::string& value) {
  const std::map<std::string, std::uint64_t*> wide = {
      {"vram", &config.vram_bytes},
      {"context", &config.context_bytes},
      {"kernel", &config.kernel_ns},
      {"event_lag", &config.event_lag_ns},
      {"event_record_cost", &config.event_record_cost_ns},
      {"event_query_cost", &config.event_query_cost_ns},
      {"launch_cost", &config.launch_cost_ns},
      {"host_copy_bytes_per_us", &config.host_copy_bytes_per_us},
      {"device_copy_bytes_per_us", &config.device_copy_bytes_per_us},
  };
  const std::map<std::string, unsigned*> narrow = {
      {"devices", &config.device_count},
      {"multiprocessors", &config.multiprocessors},
      {"queue_depth", &config.queue_depth},
      {"checkpoint", &config.checkpoint_supported},
      {"host_pid_visible", &config.host_pid_visible},
  };
  if (const auto found = wide.find(key); found != wide.end()) {
    *found->second = parse_quantity(value);
  } else if (const auto slim = narrow.find(key); slim != narrow.end()) {
    *slim->second = static_cast<unsigned>(parse_quantity(value));
  } else if (key == "driver_version") {
    config.driver_version = static_cast<int>(parse_quantity(value));
  } else if (key == "mig") {
    add_mig(config, value);
  } else {
    throw std::invalid_argument("unknown setting " + key);
  }
}

void set_line(Config& config, const std::string& line) {
  const std::string text = trimmed(line.substr(0, line.find('#')));
  if (text.empty()) return;
  const auto equals = text.find('=');
  if (equals == std::string::npos) throw std::invalid_argument("no '=' in " + text);
  set_key(config, trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)));
}

}  // namespace

std::uint64_t parse_quantity(const std::string& text) {
  static const std::map<std::string, std::uint64_t> units = {{"", 1},
                                                             {"ns", 1},
                                                             {"us", 1'000},
                                                             {"ms", 1'000'000},
                                                             {"s", 1'000'000'000},
                                                             {"B", 1},
                                                             {"KiB", 1ULL << 10},
                                                             {"MiB", 1ULL << 20},
                                                             {"GiB", 1ULL << 30}};
  std::size_t used = 0;
  const double number = std::stod(text, &used);
  const auto unit = units.find(trimmed(text.substr(used)));
  if (unit == units.end() || number < 0) throw std::invalid_argument("not a quantity: " + text);
  return static_cast<std::uint64_t>(number * static_cast<double>(unit->second) + 0.5);
}

Config read_config(const std::string& state_path) {
  Config config;
  std::ifstream file(state_path + ".conf");
  for (std::string line; std::getline(file, line);) set_line(config, line);
  if (const char* set = std::getenv("TRANCHE_STANDIN_SET")) {
    std::istringstream list(set);
    for (std::string item; std::getline(list, item, ',');) set_line(config, item);
  }
  if (config.device_count == 0 || config.device_count > kDevicesMax)
    throw std::invalid_argument("devices out of range");
  return config;
}

}  // namespace standin
