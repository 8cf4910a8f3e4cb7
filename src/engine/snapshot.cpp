// SPDX-License-Identifier: Apache-2.0
#include "engine/snapshot.hpp"

#include "engine/money_snapshot.hpp"
#include "engine/snapshot_values.hpp"
#include "engine/work_snapshot.hpp"

namespace tranche::engine {
namespace {

struct Counters {
  std::uint64_t sequence = 0;
  Instant now{};
  std::uint64_t next_party = 0, next_token = 0, next_job = 0;
  Settings settings{};
  std::uint64_t next_node = 1, next_device = 1, next_lease = 1;
  std::uint64_t next_claim = 1;
};
BOOST_DESCRIBE_STRUCT(Counters,
                      (),
                      (sequence,
                       now,
                       next_party,
                       next_token,
                       next_job,
                       settings,
                       next_node,
                       next_device,
                       next_lease,
                       next_claim))

bool read_remembered(wire::detail::RecordReader& reader, State& state) {
  std::uint64_t count = 0;
  if (!wire::detail::read_record(reader, count)) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    RequestKey key{};
    Remembered value{};
    if (!wire::detail::read_record(reader, key) || !wire::detail::read_record(reader, value)) return false;
    state.remembered.emplace_hint(state.remembered.end(), key, value);
  }
  return true;
}

bool read_health(wire::detail::RecordReader& reader, State& state) {
  if (reader.left() == 0) return true;  // Written before devices had a life of their own.
  return wire::detail::read_record(reader, state.health) &&
         read_values(reader, state.repairs, [](const Repair& repair) { return repair.id; }) &&
         read_values(reader, state.device_days, [](const DeviceDayUse& day) { return day.key; });
}

void rebuild_indexes(State& state) {
  for (const auto& [id, party] : state.parties) {
    if (id != kPlatform) state.index.by_name.emplace(std::pair{party.parent, party.name}, id);
  }
  for (const auto& [id, token] : state.tokens) {
    if (!token.revoked) state.index.by_hash.emplace(token.hash, id);
  }
  for (const auto& [id, job] : state.jobs) state.index.jobs_by_owner[job.owner].push_back(id);
  for (const auto& [id, node] : state.nodes) state.index.nodes_by_name.emplace(node.name, id);
  for (const auto& [id, booking] : state.bookings)
    for (std::uint32_t window = 0; window < booking.windows.size(); ++window)
      state.index.calendar->add(state, booking, window);
  rebuild_work_index(state);
  state.index.capacity = Capacity::rebuilt(state);
  state.index.demand = Demand::rebuilt(state);
}

}  // namespace

std::string encode_state(const State& state) {
  std::string out;
  out.reserve(state.jobs.size() * 512 + 65'536);
  wire::detail::write_record(out,
                             Counters{state.sequence,
                                      state.now,
                                      state.next_party,
                                      state.next_token,
                                      state.next_job,
                                      state.settings,
                                      state.next_node,
                                      state.next_device,
                                      state.next_lease,
                                      state.next_claim});
  write_values(out, state.skus);
  write_values(out, state.parties);
  write_values(out, state.tokens);
  write_values(out, state.jobs);
  write_values(out, state.nodes);
  write_values(out, state.devices);
  write_values(out, state.leases);
  wire::detail::write_varint(out, state.remembered.size());
  for (const auto& [key, value] : state.remembered) {
    wire::detail::write_record(out, key);
    wire::detail::write_record(out, value);
  }
  encode_money(out, state);
  write_values(out, state.bookings);
  wire::detail::write_record(out, state.health);
  write_values(out, state.repairs);
  write_values(out, state.device_days);
  write_values(out, state.volumes);
  encode_workloads(out, state);
  return out;
}

Result<State, std::string> decode_state(std::string_view bytes) {
  wire::detail::RecordReader reader(bytes);
  State state;
  Counters counters;
  const bool whole = wire::detail::read_record(reader, counters) &&
                     read_values(reader, state.skus, [](const Sku& sku) { return sku.name; }) &&
                     read_each<Party>(reader, [&](Party party) { state.add_party(std::move(party)); }) &&
                     read_values(reader, state.tokens, [](const Token& token) { return token.id; }) &&
                     read_values(reader, state.jobs, [](const Job& job) { return job.id; }) &&
                     read_values(reader, state.nodes, [](const Node& node) { return node.id; }) &&
                     read_values(reader, state.devices, [](const Device& device) { return device.id; }) &&
                     read_values(reader, state.leases, [](const Lease& lease) { return lease.id; }) &&
                     read_remembered(reader, state) && decode_money(reader, state) &&
                     // Those written before there were bookings and health, or workloads, end earlier.
                     (reader.left() == 0 ||
                      (read_values(reader, state.bookings, [](const Booking& one) { return one.id; }) &&
                       read_health(reader, state) &&
                       (reader.left() == 0 ||
                        read_values(reader, state.volumes, [](const Volume& one) { return one.id; })) &&
                       (reader.left() == 0 || decode_workloads(reader, state))));
  if (!whole) return refuse(std::string(reader.reason()));
  if (reader.left() > 0) return refuse(std::string("there are bytes after the end of the state"));
  state.sequence = counters.sequence;
  state.now = counters.now;
  state.next_party = counters.next_party;
  state.next_token = counters.next_token;
  state.next_job = counters.next_job;
  state.settings = counters.settings;
  state.next_node = counters.next_node;
  state.next_device = counters.next_device;
  state.next_lease = counters.next_lease;
  state.next_claim = counters.next_claim;
  rebuild_indexes(state);
  return state;
}

}  // namespace tranche::engine
