// SPDX-License-Identifier: Apache-2.0
// Whole devices between tenants on a living agent: it tells the end at once, wipes when it is told to, and
// the next tenant finds nothing. The same with a wipe that is left out must be seen.
#include <doctest/doctest.h>

#include "agent/test_memory.hpp"
#include "agent/test_node.hpp"

namespace tranche::agent {
namespace {

using wire::LeaseState;

constexpr std::uint64_t kHandOvers = 20;
constexpr std::size_t kBytes = 1U << 20U;

PartyId tenant_of(std::uint64_t lease) {
  return {lease % 2 + 8};
}

wire::LeaseGrant whole(std::uint64_t lease) {
  wire::LeaseGrant grant = Node::grant(lease, "true");
  grant.tenant = tenant_of(lease);
  grant.slices.push_back({.device = {3}, .uuid = "GPU-test", .vram = gibibytes(4), .milli = 1000});
  grant.must_scrub = false;  // The server decides when.
  return grant;
}

// Bytes of the tenant before that the tenants found, in all.
std::uint64_t bytes_found(MemoryScrubber::Way way) {
  DirtyMemory memory(kBytes);
  Node node;
  node.scrubber = [&] { return std::make_unique<MemoryScrubber>(memory, way); };
  node.start();
  std::uint64_t found = 0;
  for (std::uint64_t lease = 1; lease <= kHandOvers + 1; ++lease) {
    node.server.send(whole(lease));
    node.server.wait_for_state({lease}, LeaseState::kRunning);
    if (lease > 1) found += memory.find(canary_of({lease - 1}));
    memory.fill(canary_of({lease}));
    node.server.wait_for_state({lease}, LeaseState::kEnded);
    CHECK(memory.find(canary_of({lease})) == kBytes);  // Nothing was wiped before it was asked for.
    node.server.send(wire::DeviceOrder{.order = lease,
                                       .device = {3},
                                       .uuid = "GPU-test",
                                       .task = wire::DeviceTask::kWipe,
                                       .lease = {lease},
                                       .tenant = tenant_of(lease)});
    const auto answer = node.server.wait_for<wire::Receipts>([&](const wire::Receipts& receipts) {
      return !receipts.outcomes.empty() && receipts.outcomes.front().order == lease;
    });
    REQUIRE(answer.scrubs.size() == 1);
    CHECK(answer.scrubs.front().lease == LeaseId{lease});
    CHECK(answer.scrubs.front().tenant == tenant_of(lease));
    CHECK(wire::is_clean(answer.scrubs.front()));
    CHECK(answer.outcomes.front().done);
  }
  return found;
}

TEST_CASE("agent: the next tenant of a whole device finds nothing of the one before") {
  CHECK(bytes_found(MemoryScrubber::Way::kWipes) == 0);
}

TEST_CASE("agent: a wipe that is left out would be seen") {
  CHECK(bytes_found(MemoryScrubber::Way::kOnlySaysSo) == kHandOvers * kBytes);
}

TEST_CASE("agent: a node that cannot wipe says so") {
  Node node;
  node.start();
  node.server.send(wire::DeviceOrder{
      .order = 7, .device = {3}, .uuid = "GPU-test", .task = wire::DeviceTask::kWipe, .lease = {1}});
  const auto answer =
      node.server.wait_for<wire::Receipts>([](const auto& receipts) { return !receipts.outcomes.empty(); });
  CHECK_FALSE(answer.outcomes.front().done);
  REQUIRE(answer.scrubs.size() == 1);
  CHECK_FALSE(wire::is_clean(answer.scrubs.front()));
}

}  // namespace
}  // namespace tranche::agent
