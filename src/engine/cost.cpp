// SPDX-License-Identifier: Apache-2.0
#include "engine/cost.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "engine/spend.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

std::string instant_text(Instant at) {
  std::string out;
  append_text(out, at);
  return out;
}

// The nearest party of a kind at or above; the party itself where there is none.
std::string ancestor(const State& state, PartyId party, PartyKind kind) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent)) {
    if (at->id.kind() == kind) return path_of(state, at->id);
  }
  return path_of(state, party);
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
      return line.key.of_exchange() ? "exchange" : line.model;
    case wire::CostBy::kKind:
      if (line.key.volume != VolumeId{}) return "storage";
      return line.key.of_exchange() ? "exchange" : std::string(wire::name_of(line.workload));
    case wire::CostBy::kTag:
      return tag_text(line, tag);
    case wire::CostBy::kUnit:
      return units_text(line);
    case wire::CostBy::kDay:
      return instant_text(line.key.day).substr(0, 10);
  }
  return {};
}

void add_line(wire::CostRow& row, const CostLine& line) {
  row.cost.micros += line.amount.micros;
  row.credited.micros += line.credited.micros;
  row.allocated_gpu_milliseconds += line.allocated / 1000;
  row.used_gpu_milliseconds += line.used / 1000;
  for (const auto& [unit, count] : line.units) row.units[unit] += count;
}

using Rows = std::map<std::string, wire::CostRow>;

Rows rows_of(
    const State& state, PartyId party, wire::CostBy by, Instant from, Instant to, const std::string& tag) {
  Rows rows;
  const auto end = state.costs.lower_bound(CostKey{to, {}, {}});
  for (auto at = state.costs.lower_bound(CostKey{from, {}, {}}); at != end; ++at) {
    const CostLine& line = at->second;
    if (is_at_or_below(state, line.key.party, party)) add_line(rows[label(state, line, by, tag)], line);
  }
  return rows;
}

// A note is of no job, model or tag; of a party and a day it is.
std::string label(const State& state, const CreditNote& note, wire::CostBy by) {
  const CostLine line{.key = {std::chrono::floor<std::chrono::days>(note.at), note.key.party, {}}};
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

void append_notes(const State& state, PartyId party, Instant month, wire::InvoiceView& bill) {
  const auto end = state.credit_notes.upper_bound(CreditNoteKey{party, month, UINT32_MAX});
  for (auto at = state.credit_notes.lower_bound(CreditNoteKey{party, month, 0}); at != end; ++at) {
    const CreditNote& note = at->second;
    bill.credit_notes.push_back(view_of(state, note));
    bill.credited.micros += note.amount.micros;
    if (note.line > 0 && note.line <= bill.lines.size())
      bill.lines[note.line - 1].credited.micros += note.amount.micros;
  }
  bill.due.micros = bill.total.micros - bill.credited.micros;
}

// At the pace of the days so far, to the end of the month that `now` is in.
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
    report.items.push_back(std::move(row));
  }
  std::stable_sort(
      report.items.begin(), report.items.end(), [](const auto& a, const auto& b) { return a.cost > b.cost; });
  report.forecast = forecast(report.total, from, to, state.now);
  return report;
}

std::int64_t round_to_cents(std::int64_t micros) {
  constexpr std::int64_t kCent = 10'000;
  const std::int64_t rest = ((micros % kCent) + kCent) % kCent;
  const std::int64_t down = micros - rest;
  if (rest * 2 < kCent) return down;
  if (rest * 2 > kCent) return down + kCent;
  return (down / kCent) % 2 == 0 ? down : down + kCent;
}

std::vector<Instant> months_charged(const State& state, PartyId party) {
  std::set<Instant, std::greater<>> months;
  for (const auto& [key, line] : state.costs)
    if (is_at_or_below(state, key.party, party)) months.insert(month_of(key.day));
  return {months.begin(), months.end()};
}

wire::CreditNoteView view_of(const State& state, const CreditNote& note) {
  return {.id = note.id(),
          .invoice = note.invoice,
          .party = path_of(state, note.key.party),
          .currency = state.settings.currency,
          .amount = note.amount,
          .line = note.line,
          .description = note.description,
          .reason = note.reason,
          .at = note.at,
          .by = path_of(state, note.by)};
}

wire::InvoiceView invoice(const State& state, PartyId party, Instant from, Instant to) {
  const Party* customer = state.party(party);
  wire::InvoiceView out{
      .id = text(party) + "-" + instant_text(from + (to - from) / 2).substr(0, 7),
      .party = path_of(state, party),
      .currency = state.settings.currency,
      .time_zone = customer == nullptr || customer->time_zone.empty() ? "UTC" : customer->time_zone,
      .from = from,
      .to = to,
      .final = state.now >= to};
  std::vector<std::pair<std::string, wire::CostRow>> costs;
  for (auto& [what, row] : rows_of(state, party, wire::CostBy::kModel, from, to, {}))
    costs.emplace_back(what, std::move(row));
  std::stable_sort(
      costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.second.cost > b.second.cost; });
  std::int64_t exact = 0;
  const auto line = [&](std::string description, std::int64_t micros) {
    if (micros == 0) return;
    exact += micros;
    const Money amount{round_to_cents(micros)};
    out.total.micros += amount.micros;
    out.lines.push_back({.description = std::move(description), .amount = amount});
  };
  for (const auto& [what, row] : costs) {
    line(what == "exchange"  ? "Capacity bought on the exchange"
         : what == "storage" ? "Storage kept in volumes"
                             : "Use of " + what,
         row.cost.micros);
    line("Credits and refunds, " + what, -row.credited.micros);
  }
  out.rounding.micros = out.total.micros - exact;
  append_notes(state, party, invoice_month(from, to), out);
  return out;
}

}  // namespace tranche::engine
