// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_trace.hpp"

#include <algorithm>
#include <map>

#include "sim/csv.hpp"

namespace tranche::sim {
namespace {

constexpr std::int64_t kNodesMax = 1'000'000;
constexpr std::int64_t kGpusMax = 100'000;
constexpr Seconds kSecondsMax = 100'000'000'000;  // Three thousand years: a file in milliseconds is caught.

std::string_view one_of(const CsvTable& table, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (table.has(name)) return name;
  }
  return *names.begin();
}

std::int64_t integer_within(
    const CsvTable& table, std::size_t row, std::size_t column, std::int64_t low, std::int64_t high) {
  const std::int64_t value = table.integer(row, column);
  if (value < low || value > high) {
    throw table.error(
        row, std::to_string(value) + " is outside " + std::to_string(low) + ".." + std::to_string(high));
  }
  return value;
}

void read_pools(const TraceSource& source, ReplayTrace& trace) {
  const CsvTable table = CsvTable::read(source.pools_path);
  const std::size_t name = table.column(one_of(table, {"vc", "pool"}));
  const std::size_t nodes = table.column("nodes");
  const bool sized = table.has("gpus_per_node");
  const std::size_t per_node = sized ? table.column("gpus_per_node") : 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto count = integer_within(table, row, nodes, 1, kNodesMax);
    const auto shrunk = std::max<std::int64_t>(1, count / source.shrink);
    trace.pools.push_back({std::string(table.cell(row, name)), static_cast<std::int32_t>(shrunk)});
    if (sized) {
      const auto size = static_cast<std::int32_t>(integer_within(table, row, per_node, 1, 64));
      if (row > 0 && size != trace.gpus_per_node) {
        throw table.error(row, "gpus_per_node differs between pools; one size for all nodes is supported");
      }
      trace.gpus_per_node = size;
    }
  }
  if (trace.pools.empty()) throw CsvError(source.pools_path + ": names no pool");
}

}  // namespace

std::int32_t ReplayTrace::nodes() const {
  std::int32_t sum = 0;
  for (const TracePool& pool : pools) sum += pool.nodes;
  return sum;
}

ReplayTrace read_trace(const TraceSource& source) {
  ReplayTrace trace;
  read_pools(source, trace);
  std::map<std::string, GroupIndex, std::less<>> number;
  for (const TracePool& pool : trace.pools) {
    if (!number.emplace(pool.name, static_cast<GroupIndex>(number.size())).second) {
      throw CsvError(source.pools_path + ": pool '" + pool.name + "' is named twice");
    }
  }
  const CsvTable table = CsvTable::read(source.jobs_path);
  const std::size_t submit = table.column("submit"), duration = table.column("duration");
  const std::size_t gpus = table.column("gpus"), pool = table.column(one_of(table, {"vc", "pool"}));
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TraceJob job{integer_within(table, row, submit, -kSecondsMax, kSecondsMax),
                       integer_within(table, row, duration, 0, kSecondsMax),
                       static_cast<std::int32_t>(integer_within(table, row, gpus, 0, kGpusMax)),
                       0};
    const auto known = number.find(table.cell(row, pool));
    if (known == number.end()) {
      ++trace.without_pool;
    } else if (job.gpus == 0) {
      ++trace.without_gpus;
    } else if (job.submit < source.from || job.submit > source.to) {
      ++trace.outside_window;
    } else {
      trace.jobs.push_back(job);
      trace.jobs.back().pool = known->second;
    }
  }
  if (trace.jobs.empty())
    throw CsvError(source.jobs_path + ": no job of these pools in the window asked for");
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return a.submit < b.submit;
  });
  return trace;
}

}  // namespace tranche::sim
