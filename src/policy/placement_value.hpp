// SPDX-License-Identifier: Apache-2.0
#pragma once
// The default policy: put a job where it strands least compute for the jobs to come, at the price others
// would pay for the place. The mix is learned from arrivals; nothing is known in advance. See
// docs/placement.md.
#include <memory>

#include "policy/placement_mix.hpp"
#include "policy/placement_policy.hpp"
#include "policy/placement_waste.hpp"

namespace tranche::policy {

// What depends on how far ahead the policy looks.
struct Outlook {
  WasteOptions waste;
  double coverage = 0.7;    // Of the jobs with devices, by the commonest forms: the baseline's sample.
  double host_price = 8;    // Weight of the bid for CPU and memory.
  double device_price = 8;  // Weight of the bid for compute.
  // The guard's weight is guard + guard_growth * x³, x being the share of compute that jobs of several
  // devices ask for: the more of it, the more an unbroken node is worth.
  double guard = 0.04;
  double guard_growth = 0;
  double reach =
      0;  // Weight of what is out of reach of the next job: FGD's fragmentation, of the learned mix.
  double fit = 0.05;
  // What a place on the next shelf costs, times that share: without it all nodes stay broken a little, with
  // it those on the last shelves run empty and are there for jobs of several devices.
  double shelf = 0;
  // What the guard weighs more while no job of several devices has come: then nothing else speaks for them.
  double guard_unseen = 0;
};

struct ValueOptions {
  MixOptions mix;
  Outlook far{{16, 30}, 0.7, 8, 8, 0.04, 0};
  Outlook middle{{24, 12}, 0.8, 6, 6, 0.04, 8, 0, 0.05, 0, 0.25};
  Outlook near{{32, 10, true}, 0.9, 20, 20, 0.08, 32, 20, 0.1, 0.1, 0.25};
  int shelves = 8;
  // Where jobs end, those of whole nodes are believed to ask for at least this share of compute, before the
  // first of them has come.
  double whole_nodes = 0.02;
  double solve_every = 0.03;  // Of the fleet's compute, requested since the last solve.
  int first_rounds = 400;
  int rounds = 50;
};

std::unique_ptr<PlacementPolicy> make_value_policy(const Fleet& fleet, const ValueOptions& options = {});

}  // namespace tranche::policy
