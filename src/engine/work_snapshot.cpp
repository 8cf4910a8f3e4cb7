// SPDX-License-Identifier: Apache-2.0
#include "engine/work_snapshot.hpp"

#include "engine/snapshot_values.hpp"

namespace tranche::engine {
namespace {

using wire::detail::read_record;
using wire::detail::RecordReader;
using wire::detail::write_record;

struct Door {
  LeaseId lease{};
  std::uint16_t port = 0;
  bool sealed = false;
};
BOOST_DESCRIBE_STRUCT(Door, (), (lease, port, sealed))

}  // namespace

void encode_workloads(std::string& out, const State& state) {
  const Workloads& work = state.work;
  write_values(out, work.progress);
  write_values(out, work.groups);
  write_values(out, work.waits);
  write_values(out, work.services);
  wire::detail::write_varint(out, work.doors.size());
  for (const auto& [lease, door] : work.doors) write_record(out, Door{lease, door.port, door.sealed});
  write_values(out, work.unsettled);
  write_values(out, work.recurring);
  write_values(out, work.levels);
  write_values(out, work.unit_days);
  write_values(out, work.checkpoints);
  write_values(out, state.foretold.open);
  wire::detail::write_varint(out, state.foretold.outcomes.size());
  for (const ToldOutcome& one : state.foretold.outcomes) write_record(out, one);
}

bool decode_workloads(RecordReader& reader, State& state) {
  if (reader.left() == 0) return true;  // Written before there were any.
  Workloads& work = state.work;
  return read_each<JobProgress>(reader,
                                [&](JobProgress one) { work.progress.emplace(one.job, std::move(one)); }) &&
         read_each<JobGroup>(reader, [&](JobGroup one) { work.groups.emplace(one.id, std::move(one)); }) &&
         read_each<Dependencies>(reader,
                                 [&](Dependencies one) { work.waits.emplace(one.job, std::move(one)); }) &&
         read_each<Service>(reader, [&](Service one) { work.services.emplace(one.key, std::move(one)); }) &&
         read_each<Door>(reader,
                         [&](Door one) { work.doors.emplace(one.lease, OpenDoor{one.port, one.sealed}); }) &&
         read_each<UnsettledUnits>(
             reader, [&](UnsettledUnits one) { work.unsettled.emplace(one.job, std::move(one)); }) &&
         read_each<RecurringJob>(
             reader, [&](RecurringJob one) { work.recurring.emplace(one.key, std::move(one)); }) &&
         (reader.left() == 0 ||
          read_each<ServiceLevel>(reader,
                                  [&](ServiceLevel one) { work.levels.emplace(one.key, std::move(one)); })) &&
         (reader.left() == 0 ||
          (read_each<UnitDay>(reader,
                              [&](UnitDay one) { work.unit_days.emplace(one.key, std::move(one)); }) &&
           read_each<JobCheckpoints>(
               reader, [&](JobCheckpoints one) { work.checkpoints.emplace(one.job, std::move(one)); }) &&
           read_each<Told>(reader, [&](Told one) { state.foretold.open.emplace(one.job, one); }) &&
           read_each<ToldOutcome>(reader, [&](ToldOutcome one) { state.foretold.outcomes.push_back(one); })));
}

}  // namespace tranche::engine
