// SPDX-License-Identifier: Apache-2.0
// Proofs: the receipts behind a job's leases, read back from the journal, and where a device's time went.
#include <algorithm>
#include <array>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "engine/handover.hpp"
#include "engine/reconcile.hpp"
#include "engine/record.hpp"
#include "engine/spend.hpp"
#include "wire/api_health.hpp"
#include "wire/api_reconcile.hpp"

namespace tranche::api {
namespace {

using engine::Action;
using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

struct FoundRecord {
  wire::JournalProof proof{};
  wire::Receipts receipts{};
};

// The record as it stands in the journal; the store checks it against the chain while it reads.
FoundRecord read_back(const journal::Reader& store, std::uint64_t sequence) {
  FoundRecord out{.proof = {.sequence = sequence}};
  store.scan_with_hash(
      sequence, sequence, [&](std::uint64_t, std::string_view body, const journal::Hash& hash) {
        const auto record = engine::decode_record(body);
        if (!record) return false;
        out.proof.at = record->envelope.at;
        out.proof.record_hash = journal::to_hex(hash);
        for (const engine::Event& event : record->events)
          if (const auto* kept = std::get_if<engine::ReceiptsKept>(&event)) out.receipts = kept->receipts;
        return false;
      });
  return out;
}

// Adds the receipts of a record that are about this lease, or about the devices it got.
void add_receipts(const FoundRecord& record, const engine::Lease& lease, wire::LeaseReceipts& out) {
  wire::JournalProof proof = record.proof;
  proof.found = true;
  for (const wire::ScrubReceipt& one : record.receipts.scrubs)
    if (one.lease == lease.id && !one.deferred) out.scrubs.push_back({one, wire::is_clean(one), proof});
  for (const wire::LimitReceipt& one : record.receipts.limits)
    if (one.lease == lease.id) out.limits.push_back({one, proof});
}

// What its devices had passed when it got them: their tests, and the wipes that went with those.
void add_tests(const FoundRecord& record, const engine::Lease& lease, wire::LeaseReceipts& out) {
  wire::JournalProof proof = record.proof;
  proof.found = true;
  for (wire::ScrubReceipt one : record.receipts.scrubs) {
    one.lease = {};
    for (const engine::Slice& slice : lease.slices)
      if (slice.device == one.device && !one.deferred)
        out.scrubs.push_back({one, wire::is_clean(one), proof});
  }
  for (wire::AcceptanceReceipt one : record.receipts.acceptances) {
    if (one.lease != lease.id) one.lease = {};  // Whose it was before is nobody's business.
    for (const engine::Slice& slice : lease.slices)
      if (slice.device == one.device) out.acceptances.push_back({one, proof});
  }
}

// Why there is no wipe at the end of a lease: none was due, or it comes before anybody else gets the device.
std::string hand_over_of(const State& state, const engine::Lease& lease) {
  if (!lease.left || lease.scrubbed) return {};
  if (lease.kept) return "the next job of the same tenant had its devices: nothing was wiped in between";
  if (!engine::has_whole_devices(state, lease))
    return "its tenant still used the device alone: wiped before anybody else gets it";
  for (const engine::Slice& slice : lease.slices) {
    const engine::Device& device = state.devices.at(slice.device);
    if (device.record.left_by == lease.id && device.state == wire::DeviceState::kScrubbing) return {};
  }
  return lease.receipts.empty() ? "its device was taken out of service: wiped before anybody else gets it"
                                : "";
}

// Complete: every slice has its test, and after the end its wipe.
bool is_proven(const engine::Lease& lease, const wire::LeaseReceipts& receipts) {
  if (receipts.simulated || lease.slices.empty()) return true;
  const std::size_t wanted = lease.slices.size();
  const auto after = std::count_if(receipts.scrubs.begin(), receipts.scrubs.end(), [&](const auto& one) {
    return one.receipt.lease == lease.id;
  });
  const bool wiped = lease.live() || static_cast<std::size_t>(after) >= wanted || !receipts.hand_over.empty();
  return receipts.acceptances.size() >= wanted && wiped;
}

void job_receipts(Api& api, Call call) {
  const JobId id{parse_id("job_", call.parameters.front()).value_or(0)};
  api.view(std::move(call), [&api, id](const State& state, const Actor& actor) -> Shown {
    const engine::Job* job = state.job(id);
    if (job == nullptr || !engine::can_see(state, actor, *job)) return refuse(engine::not_found());
    wire::ReceiptBook out{.job = id, .verified = true};
    for (const auto& [lease_id, lease] : state.leases) {
      if (lease.job != id) continue;
      const engine::Node& node = state.nodes.at(lease.node);
      wire::LeaseReceipts receipts{
          .lease = lease_id, .attempt = lease.attempt, .node = node.name, .simulated = node.simulated};
      for (const std::uint64_t sequence : lease.tested)
        add_tests(read_back(api.loop().store(), sequence), lease, receipts);
      for (const std::uint64_t sequence : lease.receipts)
        add_receipts(read_back(api.loop().store(), sequence), lease, receipts);
      receipts.hand_over = hand_over_of(state, lease);
      out.verified = out.verified && is_proven(lease, receipts);
      out.leases.push_back(std::move(receipts));
    }
    return json(out);
  });
}

void reconcile(Api& api, Call call) {
  std::array<Instant, 2> span{};
  std::array<std::string_view, 2> names{"from", "to"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string given(call.query_value(names[i]));
    if (given.empty()) continue;
    const auto at = parse_instant(given + "T00:00:00Z");
    if (!at) {
      return call.reply.send(
          problem(wire::Problem{std::string(names[i]), "must be a day", "for example 2026-11-01"},
                  call.envelope.request_id));
    }
    span[i] = *at;
  }
  const DeviceId only{parse_id("gpu_", call.query_value("device")).value_or(0)};
  api.view(std::move(call), [span, only](const State& state, const Actor& actor) -> Shown {
    const Instant from = span[0] == Instant{}
                             ? Instant(std::chrono::floor<std::chrono::days>(clock_at_least(state.now)))
                             : span[0];
    const Instant to = span[1] == Instant{} ? from + std::chrono::days(1) : span[1];
    wire::Reconciliation out;
    for (const auto& [id, device] : state.devices) {
      const engine::Node& node = state.nodes.at(device.node);
      if (!engine::may(state, actor, Action::kManageCapacity, node.owner)) continue;
      if (only != DeviceId{} && only != id) continue;
      for (const engine::DeviceDayUse& day : engine::device_days(state, device, from, to)) {
        out.items.push_back(engine::view_of(state, day));
        out.inexact += !out.items.back().exact;
      }
    }
    return json(out);
  });
}

}  // namespace

std::vector<Route> receipt_routes() {
  return {{.method = "GET",
           .path = "/v1/jobs/{job}/receipts",
           .id = "job_receipts",
           .tag = "health",
           .summary = "Tests, wipes and limits behind a job's leases, read back from the journal",
           .gives = body<wire::ReceiptBook>(),
           .handle = job_receipts},
          {.method = "GET",
           .path = "/v1/reconciliation",
           .id = "reconcile",
           .tag = "money",
           .summary = "Where every second of each device went, by UTC day",
           .gives = body<wire::Reconciliation>(),
           .query = {"from", "to", "device"},
           .handle = reconcile}};
}

}  // namespace tranche::api
