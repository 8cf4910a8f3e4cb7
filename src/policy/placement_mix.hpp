// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kinds of jobs come, and how often? Learned from arrivals alone; old arrivals fade, so a mix that
// drifts is followed. Says when it has changed enough to be worth acting on.
#include <cstdint>
#include <vector>

#include "policy/placement_shape.hpp"

namespace tranche::policy {

// How far ahead is it worth looking? Where jobs end as fast as they come, what a node strands now is given
// back soon, and only the next few arrivals matter; where nothing ends, all that will ever come does.
enum class Horizon : std::uint8_t { kLong, kMiddle, kShort };

struct MixOptions {
  double first = 30;           // Arrivals before anything is believed.
  double memory = 12000;       // Arrivals after which an old arrival counts half.
  double check = 1000;         // Arrivals between two looks once the memory is half full.
  double change = 0.10;        // Share of the mix that must have moved to believe anew.
  double churn_memory = 1000;  // Arrivals after which an old departure counts half.
};

class MixLearner {
 public:
  explicit MixLearner(const MixOptions& options = {}) : options_(options) {}

  // True when the mix should be read again.
  bool arrived(KindIndex kind);
  void departed() { departures_ += 1; }
  [[nodiscard]] Horizon horizon() const { return horizon_; }
  // Frequencies as they are believed from now on.
  [[nodiscard]] const std::vector<double>& believe();
  [[nodiscard]] const std::vector<double>& believed() const { return believed_; }

 private:
  [[nodiscard]] double moved() const;
  bool horizon_moved();

  MixOptions options_;
  std::vector<double> weights_;  // By kind, in units of the newest arrival times scale_.
  double scale_ = 1;
  double total_ = 0;
  double since_ = 0;  // Arrivals since the last belief or look.
  double next_ = 0;
  double departures_ = 0;  // Per arrival, decayed, times churn_memory / ln 2.
  Horizon horizon_ = Horizon::kLong;
  std::vector<double> believed_;
};

}  // namespace tranche::policy
