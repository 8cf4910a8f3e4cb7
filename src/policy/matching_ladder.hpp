// SPDX-License-Identifier: Apache-2.0
#pragma once
// One side of a book, best first: sorted runs of at most 64 entries, so that adding and taking out cost the
// same few cache lines whether ten orders rest or a million do.
#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

namespace tranche::policy {

struct Rung {
  std::int64_t rank = 0;  // Lower is better: the price of an ask, minus the price of a bid.
  std::uint64_t order = 0;
  auto operator<=>(const Rung&) const = default;
};

class Ladder {
 public:
  struct Cursor {
    std::size_t run = 0, at = 0;
  };

  [[nodiscard]] bool empty() const { return runs_.empty(); }
  // Whether any rung is as good as that. Most orders reach nothing: they learn it without touching a run.
  [[nodiscard]] bool reaches(std::int64_t rank) const { return !empty() && best_ <= rank; }
  // Nothing past the end.
  [[nodiscard]] const Rung* at(Cursor cursor) const {
    return cursor.run < runs_.size() ? &runs_[cursor.run][cursor.at] : nullptr;
  }
  void advance(Cursor& cursor) const {
    if (++cursor.at == runs_[cursor.run].size()) cursor = {cursor.run + 1, 0};
  }

  void add(Rung rung) {
    if (runs_.empty()) {
      runs_.emplace_back().push_back(rung);
      fronts_.push_back(rung);
      best_ = rung.rank;
      return;
    }
    best_ = std::min(best_, rung.rank);
    const std::size_t run = run_of(rung);
    auto& rungs = runs_[run];
    rungs.insert(std::lower_bound(rungs.begin(), rungs.end(), rung), rung);
    fronts_[run] = rungs.front();
    if (rungs.size() > kRunMax) split(run);
  }

  void remove(Rung rung) {
    if (runs_.empty()) return;
    const std::size_t run = run_of(rung);
    auto& rungs = runs_[run];
    const auto found = std::lower_bound(rungs.begin(), rungs.end(), rung);
    if (found == rungs.end() || *found != rung) return;
    rungs.erase(found);
    if (!rungs.empty()) {
      fronts_[run] = rungs.front();
    } else {
      runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(run));
      fronts_.erase(fronts_.begin() + static_cast<std::ptrdiff_t>(run));
    }
    if (!fronts_.empty()) best_ = fronts_.front().rank;
  }

 private:
  static constexpr std::size_t kRunMax = 64;

  // The last run that begins at or before the rung; the first when none does.
  [[nodiscard]] std::size_t run_of(Rung rung) const {
    if (runs_.size() == 1) return 0;
    const auto after = std::upper_bound(fronts_.begin(), fronts_.end(), rung);
    return after == fronts_.begin() ? 0 : static_cast<std::size_t>(after - fronts_.begin()) - 1;
  }
  void split(std::size_t run) {
    auto& full = runs_[run];
    const auto half = full.begin() + kRunMax / 2;
    std::vector<Rung> upper;
    upper.reserve(kRunMax + 1);
    upper.assign(half, full.end());
    full.erase(half, full.end());
    fronts_.insert(fronts_.begin() + static_cast<std::ptrdiff_t>(run) + 1, upper.front());
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(run) + 1, std::move(upper));
  }

  std::vector<std::vector<Rung>> runs_;
  std::vector<Rung> fronts_;  // The first of each run, close together: finding a run touches nothing else.
  std::int64_t best_ = 0;     // Rank of the very first.
};

}  // namespace tranche::policy
