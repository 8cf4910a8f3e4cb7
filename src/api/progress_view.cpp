// SPDX-License-Identifier: Apache-2.0
#include "api/progress_view.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

// What will never be done, in the same unit as what is.
std::int64_t lost_of(const engine::JobGroup& group) {
  if (group.milliseconds.empty()) return group.given_up;
  std::int64_t lost = 0;
  for (const engine::UnitFailure& one : group.failures)
    if (one.given_up) lost += group.milliseconds.at(static_cast<std::size_t>(one.unit - group.range.first));
  return lost / 1000;
}

wire::ProgressView group_view(const engine::State& state, const engine::JobGroup& group) {
  wire::ProgressView view{.unit = group.counted_in(),
                          .done = group.counted_done(),
                          .total = group.counted_total(),
                          .failed = group.given_up,
                          .at = group.at,
                          .chunks = static_cast<std::uint32_t>(group.chunks.size() + group.past.size())};
  for (const engine::Chunk& chunk : group.chunks) {
    const engine::Job* job = state.job(chunk.job);
    if (job != nullptr && job->state == wire::JobState::kRunning) view.running += wire::count_of(chunk.left);
  }
  if (group.first_started != Instant{})
    view.rate_milli = engine::rate_milli_of(view.done, group.at - group.first_started);
  view.left = engine::time_for(view.total - view.done - lost_of(group), view.rate_milli);
  if (!group.milliseconds.empty()) {
    view.pieces = group.range.count();
    view.pieces_done = group.done;
  }
  for (const engine::UnitFailure& one : group.failures)
    view.failures.push_back({one.unit, one.tries, one.exit_code, one.given_up, one.job});
  return view;
}

}  // namespace

Money charged_for(const engine::State& state, const engine::Job& job) {
  const auto group = state.work.groups.find(job.id);
  return group == state.work.groups.end() ? job.charged : group->second.charged.value_or(Money{});
}

std::optional<wire::ProgressView> progress_of(const engine::State& state, const engine::Job& job) {
  std::optional<wire::ProgressView> view;
  if (const auto group = state.work.groups.find(job.id); group != state.work.groups.end()) {
    view = group_view(state, group->second);
  } else if (const auto found = state.work.progress.find(job.id); found != state.work.progress.end()) {
    const engine::JobProgress& progress = found->second;
    view = wire::ProgressView{.unit = progress.unit,
                              .done = progress.done,
                              .total = progress.total,
                              .rate_milli = progress.rate_milli(),
                              .at = progress.at,
                              .metrics = progress.metrics};
    if (progress.total > 0) view->left = engine::time_for(progress.total - progress.done, view->rate_milli);
  }
  if (view && is_over(job.state)) view->left.reset();
  if (view && view->done > 0) view->cost_each.micros = charged_for(state, job).micros / view->done;
  return view;
}

std::string progress_text(const wire::ProgressView& view) {
  std::string out = std::to_string(view.done);
  if (view.total > 0) out += "/" + std::to_string(view.total);
  out += " " + std::string(wire::name_of(view.unit)) + "s";
  if (view.failed > 0)
    out += ", " + std::to_string(view.failed) + (view.pieces > 0 ? " pieces failed" : " failed");
  if (view.left && view.left->count() > 0)
    out += ", " + text(Duration(std::chrono::ceil<std::chrono::seconds>(*view.left))) + " left";
  return out;
}

}  // namespace tranche::api
