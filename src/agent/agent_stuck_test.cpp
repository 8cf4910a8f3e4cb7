// SPDX-License-Identifier: Apache-2.0
// A job that cannot be ended (row F11 of the fault table): its device is told to be out of service, and
// nobody is told that it is over or clean, by this agent or the next.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include "agent/test_node.hpp"
#include "wire/health_codes.hpp"

namespace tranche::agent {
namespace {

using wire::LeaseState;

// The kernel's control groups, with one process in each that no signal ends: it has ended, and nobody asked
// how.
class HauntedGroups final : public Cgroups {
 public:
  explicit HauntedGroups(std::shared_ptr<Cgroups> real) : real_(std::move(real)), ghost_(::fork()) {
    if (ghost_ == 0) ::_exit(0);
  }
  ~HauntedGroups() override { ::waitpid(ghost_, nullptr, 0); }
  HauntedGroups(const HauntedGroups&) = delete;
  HauntedGroups& operator=(const HauntedGroups&) = delete;
  [[nodiscard]] std::string version() const override { return real_->version(); }
  bool create(const std::string& name, const CgroupLimits& limits, std::string& problem) override {
    return real_->create(name, limits, problem);
  }
  bool enter(const std::string& name) override { return real_->enter(name); }
  bool freeze(const std::string& name, bool frozen) override { return real_->freeze(name, frozen); }
  bool kill(const std::string& name) override { return real_->kill(name); }
  [[nodiscard]] std::uint64_t memory_kills(const std::string& name) const override {
    return real_->memory_kills(name);
  }
  [[nodiscard]] std::vector<int> processes(const std::string& name) const override {
    std::vector<int> all = real_->processes(name);
    all.push_back(ghost_);
    return all;
  }
  [[nodiscard]] CgroupUse use(const std::string& name) const override { return real_->use(name); }
  bool remove(const std::string& name) override { return real_->remove(name); }

 private:
  std::shared_ptr<Cgroups> real_;
  pid_t ghost_;
};

ShimWorld haunted_world() {
  ShimWorld world = make_shim_world("tranche-test");
  world.cgroups = std::make_shared<HauntedGroups>(world.cgroups);
  world.kill_patience = std::chrono::milliseconds(50);
  return world;
}

int ends_or_wipes(const TestServer& server) {
  int count = 0;
  for (const wire::AgentFrame& frame : server.frames()) {
    const auto report = wire::open_frame<wire::LeaseReport>(frame);
    count += report && report->state == LeaseState::kEnded ? 1 : 0;
    count += wire::open_frame<wire::Receipts>(frame) ? 1 : 0;
  }
  return count;
}

TEST_CASE("agent: a job that cannot be ended takes its device out of service, and is never told as over") {
  Node node(haunted_world());
  node.start();
  wire::LeaseGrant grant = Node::grant(1, "true");
  grant.slices.push_back({.device = {3}, .uuid = "GPU-test", .vram = gibibytes(1), .milli = 500});
  node.server.send(grant);
  const auto signal = node.server.wait_for<wire::HealthSignal>([](const auto&) { return true; });
  CHECK(signal.source == "agent");
  CHECK(signal.code == wire::kLeaseStuck);
  CHECK(signal.uuid == "GPU-test");
  const auto told = node.server.wait_for_state({1}, LeaseState::kStopping);
  CHECK(told.message.find("cannot be ended") != std::string::npos);
  CHECK(ends_or_wipes(node.server) == 0);
  node.stop();
  node.start();  // And waits for a word of the next agent, which finds it as it was.
  CHECK(ends_or_wipes(node.server) == 0);
}

}  // namespace
}  // namespace tranche::agent
