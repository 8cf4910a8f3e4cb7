// SPDX-License-Identifier: Apache-2.0
#include "server/sooner.hpp"

#include "base/text.hpp"
#include "engine/admission.hpp"

namespace tranche::server {
namespace {

using engine::Isolation;
using wire::Ask;

constexpr std::uint32_t kSmallestShare = 100;
constexpr std::uint32_t kWholeDevice = 1000;
constexpr std::uint8_t kHigh = 75;

std::string share_text(std::uint32_t milli) {
  std::string digits = std::to_string(kWholeDevice + milli).substr(1);
  while (digits.back() == '0') digits.pop_back();
  return "0." + digits;
}

// The model as the person wrote it: H100 in H100:4, and not the name of one card.
std::string model_text(const Ask& ask) {
  const std::size_t end = std::min(ask.gpus.find(':'), ask.gpus.size());
  const std::string first = ask.gpus.substr(0, end);
  const bool plain = !first.empty() && first != "gpu" && first.find_first_of("[{, ") == std::string::npos &&
                     (first[0] < '0' || first[0] > '9');
  return plain ? first : ask.model;
}

std::string gpus_text(const Ask& ask) {
  const std::string model = ask.model.empty() ? "" : model_text(ask) + ":";
  if (ask.milli_each >= kWholeDevice || ask.isolation != Isolation::kSoft)
    return model + std::to_string(ask.instances);
  const std::string count = ask.instances == 1 ? "" : " on each of " + std::to_string(ask.instances);
  return model + share_text(ask.milli_each) + count;
}

std::optional<Change> smaller(const Ask& ask) {
  Ask less = ask;
  if (ask.instances > 1 && ask.instances % (2 * std::max(ask.nodes, 1U)) == 0) {
    less.instances /= 2;
  } else if (ask.profile.empty() && ask.isolation == Isolation::kSoft &&
             ask.milli_each / 2 >= kSmallestShare) {
    less.milli_each /= 2;
    less.vram_each /= 2;
  } else {
    return std::nullopt;
  }
  const std::string asked = ask.gpus.empty() ? gpus_text(ask) : ask.gpus;
  return Change{"--gpus " + gpus_text(less) + " instead of " + asked, less};
}

std::optional<Change> other_model(const Ask& ask) {
  if ((ask.model.empty() && !ask.wish) || ask.instances == 0 || !ask.profile.empty()) return std::nullopt;
  Ask any = ask;
  any.model.clear();
  any.wish.reset();
  return Change{"any model with as much memory instead of " + (ask.wish ? ask.gpus : ask.model), any};
}

std::optional<Change> other_class(const Ask& ask) {
  if (ask.isolation != Isolation::kDedicated || ask.instances == 0) return std::nullopt;
  Ask soft = ask;
  soft.isolation = Isolation::kSoft;
  return Change{"--isolation soft instead of dedicated", soft};
}

std::optional<Change> preemptible(const Ask& ask) {
  if (ask.preemptible) return std::nullopt;
  Ask given = ask;
  given.preemptible = true;
  return Change{"--preemptible", given};
}

std::optional<Change> higher(const Ask& ask) {
  if (ask.priority >= kHigh) return std::nullopt;
  Ask first = ask;
  first.priority = kHigh;
  return Change{"--priority high", first};
}

std::optional<Change> shorter(const Ask& ask) {
  Ask brief = ask;
  brief.time = ask.time == Duration{} ? Duration(std::chrono::hours(1)) : ask.time / 2;
  if (brief.time < std::chrono::minutes(10)) return std::nullopt;
  return Change{
      "--time " + text(brief.time) + (ask.time == Duration{} ? "" : " instead of " + text(ask.time)), brief};
}

std::optional<Change> any_window(const Ask& ask) {
  if (!ask.labels.contains("booking")) return std::nullopt;
  Ask outside = ask;
  outside.labels.erase("booking");
  return Change{"without the label booking, outside its windows", outside};
}

std::optional<Change> any_hour(const Ask& ask) {
  if (!ask.window) return std::nullopt;
  Ask whenever = ask;
  whenever.window.reset();
  return Change{"without --window, at any hour", whenever};
}

}  // namespace

std::vector<Change> changes_for(const engine::Job& job) {
  std::vector<Change> changes;
  for (const auto change :
       {smaller, other_class, other_model, preemptible, higher, shorter, any_window, any_hour})
    if (auto one = change(job.ask)) changes.push_back(std::move(*one));
  return changes;
}

bool change_ask(engine::State& state, JobId id, const wire::Ask& ask) {
  engine::Job& job = state.jobs.at(id);
  // It holds its quota already, and would not hold it twice.
  engine::release_quota(state, job.owner, job.ask, job.hold);
  const auto admitted = engine::admit(state, job.owner, ask, state.now);
  if (!admitted) return false;
  state.index.capacity->dequeue(state, job);
  job.ask = ask;
  job.hold = admitted->hold;
  engine::hold_quota(state, job.owner, job.ask, job.hold);
  state.index.capacity->enqueue(state, job);
  state.index.capacity->changed();
  return true;
}

}  // namespace tranche::server
