// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a job will run, from how long its like have run: the last finished jobs of the same group and
// size.
//
// With too few of those it asks wider circles: the group, then the size, then everybody, then a constant.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

// The newest `limit` samples, kept sorted so that a quantile is one look.
class RecentSamples {
 public:
  explicit RecentSamples(std::size_t limit = 200) : limit_(limit) {}
  void add(Seconds value);
  [[nodiscard]] std::size_t size() const { return sorted_.size(); }
  [[nodiscard]] Seconds quantile(double q) const;  // Lower of the two neighbours; never called when empty.
  // A draw by quantile among samples longer than `elapsed`, and `more` beside them that are longer than all;
  // nothing: it fell among those.
  [[nodiscard]] std::optional<Seconds> quantile_beyond(Seconds elapsed, double q, std::ptrdiff_t more) const;

 private:
  std::size_t limit_ = 0;
  std::size_t oldest_ = 0;
  std::vector<Seconds> ring_;
  std::vector<Seconds> sorted_;
};

// A kind of job, numbered on first sight so that a prediction is one look and not a search.
using RuntimeKind = std::int32_t;

class RuntimeHistory {
 public:
  static constexpr Seconds kUnknownRuntime = 3600;
  static constexpr std::ptrdiff_t kDeclarationWeight = 3;

  RuntimeKind kind(GroupIndex group, std::int32_t gpus);
  void finished(RuntimeKind kind, Seconds ran);
  [[nodiscard]] Seconds predict(RuntimeKind kind) const;
  // The q-quantile of total run times among those that outlived `elapsed`. A job that declared how long it
  // takes at most (0: it did not) is believed as much as kDeclarationWeight of its like would be: it is all
  // that is known of the first of its kind, and of one that outlived all its like.
  [[nodiscard]] Seconds draw(RuntimeKind kind, Seconds elapsed, double q, Seconds declared = 0) const;

 private:
  struct Kind {
    std::int32_t own = 0;  // Numbers of sample sets, from the narrowest circle outwards.
    std::int32_t group = 0;
    std::int32_t size = 0;
  };
  static constexpr std::int32_t kEverybody = 0;
  static constexpr std::int32_t kAny = -1;
  std::int32_t set_of(GroupIndex group, std::int32_t gpus);
  [[nodiscard]] const RecentSamples* best(RuntimeKind kind) const;

  std::map<std::pair<GroupIndex, std::int32_t>, std::int32_t> set_numbers_;
  std::map<std::int32_t, RuntimeKind> kind_of_set_;
  std::vector<RecentSamples> sets_{RecentSamples{}};
  std::vector<Kind> kinds_;
};

}  // namespace tranche::policy
