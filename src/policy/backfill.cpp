// SPDX-License-Identifier: Apache-2.0
#include "policy/backfill.hpp"

#include <algorithm>
#include <functional>

namespace tranche::policy {

Reservation reserve(std::int32_t need, std::int32_t idle, std::vector<Release>& releases, Seconds now) {
  // A heap, because the head usually needs only the first few of many releases.
  std::make_heap(releases.begin(), releases.end(), std::greater<>());
  Reservation found{now, 0};
  for (auto end = releases.end(); idle < need && end != releases.begin(); --end) {
    std::pop_heap(releases.begin(), end, std::greater<>());
    idle += (end - 1)->gpus;
    found.starts = (end - 1)->at;
  }
  found.spare = idle - need;
  return found;
}

Seconds expected_end(Seconds started, Seconds predicted, Seconds now) {
  Seconds length = std::max<Seconds>(predicted, 1);
  while (started + length <= now) length *= 2;
  return started + length;
}

}  // namespace tranche::policy
