// SPDX-License-Identifier: Apache-2.0
#include "engine/cost.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "engine/contract_costs.hpp"
#include "engine/spend.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

// The nearest party of a kind at or above; else its tenant, and the party itself where there is none.
std::string ancestor(const State& state, PartyId party, PartyKind kind) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent)) {
    if (at->id.kind() == kind) return path_of(state, at->id);
  }
  const PartyId tenant = tenant_of(state, party);  // Of those who are in no subscriber.
  return path_of(state, tenant == kPlatform ? party : tenant);
}

// One label, or all of them: either way every line counts once.
std::string tag_text(const CostLine& line, const std::string& tag) {
  if (!tag.empty()) {
    const auto found = line.labels.find(tag);
    return found == line.labels.end() ? "(none)" : found->second;
  }
  std::string out;
  for (const auto& [name, value] : line.labels) out += (out.empty() ? "" : ", ") + name + "=" + value;
  return out.empty() ? "(none)" : out;
}

std::string units_text(const CostLine& line) {
  std::string out;
  for (const auto& [unit, count] : line.units) out += (out.empty() ? "" : ", ") + unit;
  return out.empty() ? "(none)" : out;
}

std::string label(const State& state, const CostLine& line, wire::CostBy by, const std::string& tag) {
  const bool by_work = by == wire::CostBy::kJob || by == wire::CostBy::kModel || by == wire::CostBy::kKind;
  if (by_work && line.key.source == CostSource::kFee) return "exchange fees";
  switch (by) {
    case wire::CostBy::kTenant:
      return ancestor(state, line.key.party, PartyKind::kTenant);
    case wire::CostBy::kSubscriber:
      return ancestor(state, line.key.party, PartyKind::kSubscriber);
    case wire::CostBy::kUser:
      return path_of(state, line.key.party);
    case wire::CostBy::kJob:
      if (line.key.volume != VolumeId{}) return text(line.key.volume);
      return line.key.of_exchange() ? "exchange" : text(line.key.job);
    case wire::CostBy::kModel:
      if (line.model.empty() && !line.key.of_exchange()) return "other devices";
      return line.key.of_exchange() ? "exchange" : line.model;
    case wire::CostBy::kKind:
      if (line.key.volume != VolumeId{}) return "storage";
      return line.key.of_exchange() ? "exchange" : std::string(wire::name_of(line.workload));
    case wire::CostBy::kTag:
      return tag_text(line, tag);
    case wire::CostBy::kUnit:
      return units_text(line);
    case wire::CostBy::kDay:
      return text(line.key.day).substr(0, 10);
  }
  return {};
}

// A slice a little larger than the most that was used of this one would have done; sizes go in twentieths.
// Where nothing was measured nothing is claimed.
std::int64_t saved_by_smaller_slice(const CostLine& line) {
  constexpr std::int64_t kStep = 50;
  if (line.peak_milli == 0) return 0;
  const std::int64_t needed = (std::int64_t{line.peak_milli} * 110 / 100 + kStep - 1) / kStep * kStep;
  const std::int64_t spare = std::max<std::int64_t>(1000 - needed, 0);
  // What was bought is paid by the size of it, too.
  return static_cast<std::int64_t>(Int128{line.by_allocation.micros + line.bought.micros} * spare / 1000);
}

void add_line(wire::CostRow& row, const CostLine& line) {
  row.smaller_slice_saves.micros += saved_by_smaller_slice(line);
  row.cost.micros += line.amount.micros + line.bought.micros;
  row.credited.micros += line.credited.micros;
  // What was bought counts as it is delivered: before that nothing of it could be used. It was counted at
  // once where it was bought before there was such a count.
  row.allocated_gpu_milliseconds += line.bought_time / 1000;
  if (!line.key.of_exchange() || !line.as_delivered) row.allocated_gpu_milliseconds += line.allocated / 1000;
  row.used_gpu_milliseconds += line.used / 1000;
  for (const auto& [unit, count] : line.units) row.units[unit] += count;
}

using Rows = std::map<std::string, wire::CostRow>;

Rows rows_of(
    const State& state, PartyId party, wire::CostBy by, Instant from, Instant to, const std::string& tag) {
  Rows rows;
  if (to <= from) return rows;  // The end would be behind the beginning.
  const auto end = state.costs.lower_bound(CostKey{.day = to});
  for (auto at = state.costs.lower_bound(CostKey{.day = from}); at != end; ++at) {
    const CostLine& line = at->second;
    if (is_at_or_below(state, line.key.party, party)) add_line(rows[label(state, line, by, tag)], line);
  }
  each_uncounted(state, [&](const CostKey& key, std::int64_t time, Money) {
    if (key.day < from || key.day >= to || !is_at_or_below(state, key.party, party)) return;
    const CostLine line{.key = key};
    rows[label(state, line, by, tag)].allocated_gpu_milliseconds += time / 1000;
  });
  return rows;
}

// A note is of no job, model or tag; of a party and a day it is.
std::string label(const State& state, const CreditNote& note, wire::CostBy by) {
  const CostLine line{
      .key = {.day = std::chrono::floor<std::chrono::days>(note.at), .party = note.key.party}};
  const bool told = by == wire::CostBy::kTenant || by == wire::CostBy::kSubscriber ||
                    by == wire::CostBy::kUser || by == wire::CostBy::kDay;
  return told ? label(state, line, by, {}) : "credit notes";
}

void add_notes(const State& state, PartyId party, wire::CostBy by, Instant from, Instant to, Rows& rows) {
  for (const auto& [key, note] : state.credit_notes) {
    if (note.at >= from && note.at < to && is_at_or_below(state, key.party, party))
      rows[label(state, note, by)].credited.micros += note.amount.micros;
  }
}

// A token costs less than a micro-unit: what a million of them cost still says something.
void add_unit_costs(wire::CostRow& row) {
  constexpr std::int64_t kThousandth = 1'000, kMillion = 1'000'000;
  const std::int64_t left = row.cost.micros - row.credited.micros;
  for (const auto& [unit, count] : row.units) {
    if (count <= 0) continue;
    row.unit_cost[unit] = {left / count};
    if (Int128{left} < Int128{count} * kThousandth && Int128{left} > -Int128{count} * kThousandth)
      row.cost_per_million[unit] = {static_cast<std::int64_t>(Int128{left} * kMillion / count)};
  }
}

// At the pace of the days so far, to the end of the period.
Money forecast(Money total, Instant from, Instant to, Instant now) {
  if (now >= to || now <= from || to <= from) return {};
  const Duration passed = now - from;
  return {static_cast<std::int64_t>(Int128{total.micros} * (to - from).count() / passed.count())};
}

}  // namespace

wire::CostReport cost_report(
    const State& state, PartyId party, wire::CostBy by, Instant from, Instant to, const std::string& tag) {
  wire::CostReport report{
      .party = path_of(state, party), .currency = state.settings.currency, .from = from, .to = to};
  Rows rows = rows_of(state, party, by, from, to, tag);
  add_notes(state, party, by, from, to, rows);
  for (auto& [what, row] : rows) {
    row.what = what;
    report.total.micros += row.cost.micros - row.credited.micros;
    if (row.allocated_gpu_milliseconds > 0) {
      const std::int64_t idle = row.allocated_gpu_milliseconds - row.used_gpu_milliseconds;
      row.idle_percent = std::clamp<std::int64_t>(
          static_cast<std::int64_t>(Int128{idle} * 100 / row.allocated_gpu_milliseconds), 0, 100);
    }
    add_unit_costs(row);
    if (row.cost > Money{})
      row.smaller_slice_percent =
          static_cast<std::int64_t>(Int128{row.smaller_slice_saves.micros} * 100 / row.cost.micros);
    report.smaller_slice_saves.micros += row.smaller_slice_saves.micros;
    report.items.push_back(std::move(row));
  }
  std::stable_sort(
      report.items.begin(), report.items.end(), [](const auto& a, const auto& b) { return a.cost > b.cost; });
  report.forecast = forecast(report.total, from, to, state.now);
  return report;
}

}  // namespace tranche::engine
