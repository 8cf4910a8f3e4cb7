// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_mix.hpp"

#include <algorithm>

namespace tranche::policy {
namespace {

constexpr double kLn2 = 0.6931471805599453;

}  // namespace

bool MixLearner::arrived(KindIndex kind) {
  if (kind >= weights_.size()) weights_.resize(kind + 1, 0.0);
  // Instead of fading all weights at every arrival, new arrivals weigh more; rescaled before it overflows.
  scale_ *= 1 + kLn2 / options_.memory;
  weights_[kind] += scale_;
  total_ += scale_;
  if (scale_ > 1e100) {
    for (double& weight : weights_) weight /= scale_;
    total_ /= scale_;
    scale_ = 1;
  }
  if (horizon_moved() && next_ > 0) return true;
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
  for (std::size_t kind = 0; kind < weights_.size(); ++kind) {
    const double before = kind < believed_.size() ? believed_[kind] : 0;
    const double now = weights_[kind] / total_;
    distance += now > before ? now - before : before - now;
  }
  return distance / 2;
}

const std::vector<double>& MixLearner::believe() {
  believed_.resize(weights_.size());
  for (std::size_t kind = 0; kind < weights_.size(); ++kind) believed_[kind] = weights_[kind] / total_;
  return believed_;
}

}  // namespace tranche::policy
