// SPDX-License-Identifier: Apache-2.0
#include "sim/whatif_csv.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "sim/csv.hpp"
#include "wire/fields.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::sim {
namespace {

std::uint32_t in_range(
    const CsvTable& table, std::size_t row, std::size_t column, std::int64_t least, std::int64_t most) {
  const std::int64_t value = table.integer(row, column);
  if (value < least || value > most)
    throw table.error(
        row,
        std::to_string(value) + " is not between " + std::to_string(least) + " and " + std::to_string(most));
  return static_cast<std::uint32_t>(value);
}

std::uint32_t count(std::string_view digits, const std::string& whole) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value == 0 || value > 100'000)
    throw std::invalid_argument("'" + std::string(digits) + "' in '" + whole +
                                "' is not a number of at least 1; write for example 8x8xH100-SXM5-80GB");
  return value;
}

// "4" or "2.5" devices, in thousandths.
std::int64_t milli_of(const std::string& text, const std::string& whole) {
  double devices = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), devices);
  if (error != std::errc{} || end != text.data() + text.size() || devices < 0 || devices > 1e6)
    throw std::invalid_argument("'" + text + "' in '" + whole +
                                "' is not a number of devices; write acme=4..8");
  return static_cast<std::int64_t>(devices * 1000.0 + 0.5);
}

}  // namespace

std::vector<WhatIfJob> read_workload(const std::string& path) {
  const CsvTable table = CsvTable::read(path);
  const std::size_t submit = table.column("submit"), duration = table.column("duration"),
                    tenant = table.column("tenant"), kind = table.column("kind"), gpus = table.column("gpus"),
                    milli = table.column("milli"), vram = table.column("vram_gb");
  std::vector<WhatIfJob> jobs;
  jobs.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    WhatIfJob job{.submit = table.integer(row, submit),
                  .duration = std::max<std::int64_t>(table.integer(row, duration), 1),
                  .tenant = std::string(table.cell(row, tenant))};
    const auto known = wire::from_name<wire::WorkloadKind>(table.cell(row, kind));
    if (!known) throw table.error(row, "'" + std::string(table.cell(row, kind)) + "' is no kind of workload");
    if (job.tenant.empty()) throw table.error(row, "the tenant is missing");
    job.ask.kind = *known;
    job.ask.instances = in_range(table, row, gpus, 0, 1024);
    job.ask.milli_each = in_range(table, row, milli, 0, 1000);
    job.ask.vram_each = static_cast<std::int64_t>(table.number(row, vram) * 1e9);
    if (table.has("model")) job.ask.model = std::string(table.cell(row, table.column("model")));
    if (table.has("priority"))
      job.ask.priority = static_cast<std::uint8_t>(in_range(table, row, table.column("priority"), 0, 100));
    job.busy_milli = table.has("busy_milli") ? in_range(table, row, table.column("busy_milli"), 0, 1000)
                                             : job.ask.milli_each;
    jobs.push_back(std::move(job));
  }
  std::stable_sort(
      jobs.begin(), jobs.end(), [](const WhatIfJob& a, const WhatIfJob& b) { return a.submit < b.submit; });
  return jobs;
}

WhatIfNodes parse_fleet(const std::string& text) {
  const std::size_t first = text.find('x'),
                    second = first == std::string::npos ? first : text.find('x', first + 1);
  if (second == std::string::npos)
    throw std::invalid_argument("'" + text +
                                "' is not NODESxDEVICESxMODEL; write for example 8x8xH100-SXM5-80GB");
  WhatIfNodes out{.nodes = count(std::string_view(text).substr(0, first), text),
                  .devices = count(std::string_view(text).substr(first + 1, second - first - 1), text)};
  const std::string name = text.substr(second + 1);
  const wire::GpuModel* const model = wire::find_gpu_model(name);
  if (model == nullptr)
    throw std::invalid_argument(
        "'" + name + "' is not in the catalogue; `tranche size --help` shows how models are named");
  out.model = std::string(model->name);
  return out;
}

void parse_share(const std::string& text, std::map<std::string, wire::Quota>& quotas) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw std::invalid_argument("'" + text + "' is not TENANT=DEVICES; write acme=4 or acme=4..8");
  const std::string amount = text.substr(equals + 1);
  const std::size_t dots = amount.find("..");
  wire::QuotaShare& share = quotas[text.substr(0, equals)].gpu_milli;
  share.guaranteed = milli_of(amount.substr(0, dots), text);
  if (dots != std::string::npos) share.limit = milli_of(amount.substr(dots + 2), text);
}

}  // namespace tranche::sim
