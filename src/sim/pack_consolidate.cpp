// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_consolidate.hpp"

#include <deque>
#include <map>

#include "policy/placement_consolidate.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kWindow = 64;  // Tasks that wait at most; the oldest is dropped.

struct Waiting {
  std::uint64_t job = 0;
  policy::KindIndex kind = 0;
};

class ConsolidatedRun {
 public:
  ConsolidatedRun(policy::Placer& placer, PackRun& run) : placer_(placer), run_(run) {}

  void arrive(policy::KindIndex kind) {
    const Waiting task{++run_.offered, kind};
    if (start(task, policy::Learning::kCount) || start_after_moves(task)) return;
    waiting_.push_back(task);
    if (waiting_.size() <= kWindow) return;
    waiting_.pop_front();
    ++run_.dropped;
  }

  void finish() { run_.dropped += waiting_.size(); }

 private:
  bool start(const Waiting& task, policy::Learning learning) {
    const auto placement = placer_.place(task.kind, learning);
    if (!placement) return false;
    residents_.add({task.job, task.kind, *placement});
    ++changes_;
    return true;
  }

  bool start_after_moves(const Waiting& task) {
    // A kind for which no room could be made is not tried again while nothing has changed.
    const auto tried = hopeless_.find(task.kind);
    if (tried != hopeless_.end() && tried->second == changes_) return false;
    const auto moves = policy::make_room(placer_, residents_, task.kind);
    if (!moves) {
      hopeless_[task.kind] = changes_;
      return false;
    }
    run_.moves += moves->size();
    ++changes_;
    const bool started = start(task, policy::Learning::kIgnore);
    std::erase_if(waiting_, [&](const Waiting& other) { return start(other, policy::Learning::kIgnore); });
    return started;
  }

  policy::Placer& placer_;
  PackRun& run_;
  policy::Residents residents_;
  std::deque<Waiting> waiting_;
  std::map<policy::KindIndex, std::uint64_t> hopeless_;
  std::uint64_t changes_ = 0;
};

}  // namespace

PackRun run_consolidated(const PackNodes& nodes, const PackTasks& tasks, const PackOptions& options) {
  const Arrivals arrivals = draw_arrivals(nodes, tasks, options.seed, options.ratio);
  const auto placer = make_placer(nodes, tasks, arrivals, options);
  PackRun run;
  run.seed = options.seed;
  AllocationCurve curve(nodes.capacity_milli);
  ConsolidatedRun fleet(*placer, run);
  std::int64_t arrived = 0;
  for (const std::uint32_t kind : arrivals.kinds) {
    arrived += placer->shape(kind).gpu_milli();
    const std::int64_t before = options.nanoseconds ? options.nanoseconds() : 0;
    fleet.arrive(kind);
    if (options.nanoseconds) run.latency.add(options.nanoseconds() - before);
    curve.note(arrived, placer->fleet().allocated_milli());
    if (options.progress && run.offered % 256 == 0) options.progress(run.offered, arrivals.kinds.size());
  }
  fleet.finish();
  run.allocation_curve = curve.means();
  run.allocation_at_100 = allocation_at(run.allocation_curve, 100);
  run.allocation_at_end = run.allocation_curve.back();
  run.unallocated_milli_at_end = nodes.capacity_milli - placer->fleet().allocated_milli();
  return run;
}

}  // namespace tranche::sim
