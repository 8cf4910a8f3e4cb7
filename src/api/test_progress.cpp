// SPDX-License-Identifier: Apache-2.0
#include "api/test_progress.hpp"

namespace tranche::api {

const wire::TestProgress* progress_of(const engine::Device& device, const server::LinkFacts& facts) {
  if (device.record.order == 0 || !facts.connected) return nullptr;
  for (const wire::TestProgress& one : facts.tests)
    if (one.order == device.record.order) return &one;
  return nullptr;
}

std::string progress_words(const engine::Device& device, const server::LinkFacts& facts) {
  const wire::TestProgress* now = progress_of(device, facts);
  if (now == nullptr) return {};
  if (now->part.empty()) return "behind another test on its node";
  return std::to_string(now->percent) + " %: " + now->part;
}

}  // namespace tranche::api
