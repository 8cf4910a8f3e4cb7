// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_mix.hpp"

#include <algorithm>
#include <cmath>

namespace tranche::policy {
namespace {

constexpr double kLn2 = 0.6931471805599453;

}  // namespace

void FadingCounts::add(KindIndex kind, double half) {
  if (kind >= weights_.size()) weights_.resize(kind + 1, 0.0);
  // Instead of fading all weights at every arrival, new arrivals weigh more; rescaled before it overflows.
  scale_ *= 1 + kLn2 / half;
  weights_[kind] += scale_;
  total_ += scale_;
  squares_ += scale_ * scale_;
  if (scale_ < 1e100) return;
  for (double& weight : weights_) weight /= scale_;
  total_ /= scale_;
  squares_ /= scale_ * scale_;
  scale_ = 1;
}

bool MixLearner::arrived(KindIndex kind) {
  all_.add(kind, options_.memory);
  recent_.add(kind, options_.recent);
  if (horizon_moved() && next_ > 0) return true;
  if (++since_look_ >= options_.look) {
    since_look_ = 0;
    if (next_ > 0 && has_turned()) {
      forget();
      return true;
    }
  }
  if (++since_ < (next_ == 0 ? options_.first : next_)) return false;
  since_ = 0;
  if (next_ == 0) {
    next_ = options_.first;
    return true;
  }
  // Doubling at first: every look sees twice the evidence. Later a look only acts on a real change.
  if (next_ < options_.check) {
    next_ *= 2;
    return true;
  }
  next_ = options_.check;
  return moved() > options_.change;
}

// Do the arrivals of late differ from all by more than chance would make them? A chi-square of both samples:
// it sees a rare kind become common, which says little by its count and much by its devices. Chance gives a
// half for each kind that comes often enough, less for the rest, and as much variance.
bool MixLearner::has_turned() const {
  const double seen = recent_.evidence();
  double distance = 0;
  double chance = 0;
  for (std::size_t kind = 0; kind < all_.kinds(); ++kind) {
    const double share = all_.share(kind);
    const double late = recent_.share(kind);
    if (share + late > 0) distance += (late - share) * (late - share) / (late + share);
    chance += std::min(0.5, seen * share);
  }
  return seen * distance > chance + options_.surprise * std::sqrt(chance);
}

// What was before the mix turned says nothing of what comes.
void MixLearner::forget() {
  all_ = recent_;
  since_ = 0;
  next_ = options_.look;
}

bool MixLearner::horizon_moved() {
  const double window = options_.churn_memory / kLn2;
  departures_ *= 1 - 1 / window;
  const double rate = departures_ / window;  // Departures per arrival, lately.
  // A band between the thresholds keeps a rate near one of them from flapping.
  const Horizon before = horizon_;
  if (rate > 0.45) {
    horizon_ = Horizon::kShort;
  } else if (rate < 0.08) {
    horizon_ = Horizon::kLong;
  } else if (rate > 0.12 && rate < 0.35) {
    horizon_ = Horizon::kMiddle;
  }
  return horizon_ != before;
}

double MixLearner::moved() const {
  double distance = 0;
  for (std::size_t kind = 0; kind < all_.kinds(); ++kind) {
    const double before = kind < believed_.size() ? believed_[kind] : 0;
    const double now = all_.share(kind);
    distance += now > before ? now - before : before - now;
  }
  return distance / 2;
}

const std::vector<double>& MixLearner::believe() {
  believed_.resize(all_.kinds());
  for (std::size_t kind = 0; kind < all_.kinds(); ++kind) believed_[kind] = all_.share(kind);
  return believed_;
}

}  // namespace tranche::policy
