// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kinds of jobs come, and how often? Learned from arrivals alone; old arrivals fade, so a mix that
// drifts is followed, and are forgotten when it turns. Says when it has changed enough to be worth acting on.
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
  double recent = 500;         // Arrivals after which an old arrival counts half in the short memory.
  double look = 250;           // Arrivals between two comparisons of the short memory with the long one.
  double surprise = 6;  // How many standard deviations beyond chance they differ by when it is a new mix.
};

// Counts by kind of which the old fade.
class FadingCounts {
 public:
  // `half` is how many arrivals make an old one count half.
  void add(KindIndex kind, double half);
  [[nodiscard]] double share(std::size_t kind) const {
    return kind < weights_.size() ? weights_[kind] / total_ : 0;
  }
  [[nodiscard]] std::size_t kinds() const { return weights_.size(); }
  // How many arrivals that all count the same would say as much.
  [[nodiscard]] double evidence() const { return total_ * total_ / squares_; }

 private:
  std::vector<double> weights_;  // In units of the newest arrival times scale_.
  double scale_ = 1;
  double total_ = 0;
  double squares_ = 0;
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
  [[nodiscard]] bool has_turned() const;
  void forget();

  MixOptions options_;
  FadingCounts all_;
  FadingCounts recent_;
  double since_look_ = 0;
  double since_ = 0;  // Arrivals since the last belief or look.
  double next_ = 0;
  double departures_ = 0;  // Per arrival, decayed, times churn_memory / ln 2.
  Horizon horizon_ = Horizon::kLong;
  std::vector<double> believed_;
};

}  // namespace tranche::policy
