// SPDX-License-Identifier: Apache-2.0
// Things that change under a running job: its limits, its broker, and whether its memory is on the device.
#include <sys/mman.h>
#include <sys/socket.h>

#include "guard/broker_fixture.hpp"
#include "guard/broker_listen.hpp"
#include "guard/host_clock.hpp"

namespace tranche::guard {
namespace {

TEST_CASE("broker: it tells the limits that stand, which device of the machine included") {
  BrokerProcess broker;
  BrokerClient client(broker.socket());
  TenantLimits limits = limits_of(1000);
  limits.device_count = 2;
  limits.devices[0].physical = 3;
  limits.devices[1] = limits.devices[0];
  limits.devices[1].physical = 1;
  limits.devices[1].vram_bytes = 2000;
  const auto regions = client.create_tenant("one", limits, broker.tenant(1));
  const auto listed = client.list();
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].limits.device_count == 2);
  CHECK(listed[0].limits.devices[0].physical == 3);
  CHECK(listed[0].limits.devices[1].physical == 1);
  CHECK(listed[0].limits.devices[1].vram_bytes == 2000);
}

TEST_CASE("broker: what is parked leaves the account and comes back, unless the limit went down") {
  BrokerProcess broker;
  BrokerClient client(broker.socket());
  const auto regions = client.create_tenant("one", limits_of(1000), broker.tenant(1));
  const pid_t holder = child_of(broker.tenant(1), true, [] {
    if (!reserve(0, 700).granted) return 1;
    ::pause();
    return 0;
  });
  REQUIRE(eventually([&] { return usage_of(*regions, 0).vram_used == 700; }));
  const auto processes = client.processes("one");
  REQUIRE(processes.size() == 1);
  const std::uint32_t pid = processes[0].pid;
  CHECK_FALSE(client.unpark("one", pid));
  CHECK(client.park("one", pid));
  CHECK(usage_of(*regions, 0).vram_used == 0);
  CHECK(client.processes("one")[0].parked);
  CHECK(client.park("one", pid));  // Twice is once.
  client.set_limits("one", limits_of(600));
  CHECK_FALSE(client.unpark("one", pid));
  CHECK(usage_of(*regions, 0).vram_used == 0);
  client.set_limits("one", limits_of(700));
  CHECK(client.unpark("one", pid));
  CHECK(usage_of(*regions, 0).vram_used == 700);
  CHECK(client.park("one", pid));
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  code_of(holder);
  CHECK(eventually([&] { return client.processes("one").empty(); }));
  CHECK(usage_of(*regions, 0).vram_used == 0);
  CHECK_FALSE(client.park("one", pid));
}

TEST_CASE("broker: one that takes over goes on with the ledger, knows who lives, and is joined again") {
  BrokerProcess broker;
  auto client = std::make_unique<BrokerClient>(broker.socket());
  auto before = client->create_tenant("one", limits_of(1000), broker.tenant(1));
  const auto hold = [] {
    if (!reserve(0, 300).granted) return 1;
    // Launches until a limit of the new broker is seen; the link is looked at while waiting for a grant.
    return eventually([] {
      before_copy(0, 1);
      rejoin_if_orphaned(monotonic_ns());
      return control_region()->devices[0].vram_limit.load() == 2000;
    })
               ? (reserve(0, 1700).granted && !reserve(0, 1).granted ? 0 : 3)
               : 2;
  };
  const pid_t alive = child_of(broker.tenant(1), true, hold);
  const pid_t mortal = child_of(broker.tenant(1), false, hold);
  REQUIRE(eventually([&] { return usage_of(*before, 0).vram_used == 600; }));
  client.reset();
  broker.die();
  ::kill(mortal, SIGKILL);
  code_of(mortal);
  broker.begin();
  client = std::make_unique<BrokerClient>(broker.socket());
  const auto after = client->create_tenant("one", limits_of(2000), broker.tenant(1), 0600, before.get());
  CHECK(usage_of(*after, 0).vram_used <= 2000);
  CHECK(
      eventually([&] { return client->processes("one").size() == 1 || usage_of(*after, 0).vram_used == 0; }));
  CHECK((after->control().devices[0].flags.load() & kZeroOnAlloc) != 0);
  CHECK(code_of(alive) == 0);
  CHECK(eventually([&] { return usage_of(*after, 0).vram_used == 0; }));
  CHECK(usage_of(*after, 0).vram_peak == 2000);
}

TEST_CASE("broker: a ceiling of one that takes over neither forgives nor punishes the past") {
  BrokerProcess broker;
  auto client = std::make_unique<BrokerClient>(broker.socket());
  auto before = client->create_tenant("one", limits_of(1000), broker.tenant(1));
  auto& used = const_cast<LedgerRegion&>(before->ledger());
  const int fd = before->ledger_fd();
  auto* ledger = static_cast<LedgerRegion*>(map_region(fd, sizeof(LedgerRegion), true));
  REQUIRE(ledger != nullptr);
  ledger->devices[0].lanes[0].submitted_ns.store(3'600'000'000'000);
  broker.die();
  broker.begin();
  client = std::make_unique<BrokerClient>(broker.socket());
  const auto after = client->create_tenant("one", limits_of(1000), broker.tenant(1), 0600, before.get());
  const LaneControl& rules = after->control().devices[0].lanes[0];
  CHECK(rules.allowance_ns.load() == charged_ns(used.devices[0].lanes[0]));
  ::munmap(ledger, sizeof(LedgerRegion));
}

TEST_CASE("broker: only one lives at a place") {
  BrokerProcess broker;
  BrokerOptions options;
  options.socket_path = broker.socket();
  Broker second(options);
  CHECK_THROWS(second.listen());
  CHECK(BrokerClient::answers(broker.socket()));
}

// What a forged broker sends must not even be looked at unless it cannot be changed under us.
TEST_CASE("session: a region that its sender could shrink, or of another kind, gives no device") {
  for (const bool sealed : {false, true}) {
    char folder[] = "/tmp/tranche-forged-XXXXXX";
    REQUIRE(::mkdtemp(folder) != nullptr);
    const std::string path = std::string(folder) + "/socket";
    const int listener = listen_at(path, 0600);
    REQUIRE(listener >= 0);
    const pid_t job = child_of(path, false, [] { return 0; });
    int link = -1;
    REQUIRE(eventually([&] { return (link = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; }));
    Request request;
    int fds[kFdsMax];
    REQUIRE(receive_message(link, &request, sizeof request, fds, kFdsMax));
    Reply reply;
    reply.answer = Answer::kDone;
    int forged[2];
    for (int& fd : forged) {
      fd = sealed ? create_region("forged", sizeof(LedgerRegion)) : ::memfd_create("forged", MFD_CLOEXEC);
      REQUIRE(::ftruncate(fd, static_cast<off_t>(sizeof(LedgerRegion))) == 0);
    }
    send_message(link, &reply, sizeof reply, forged, 2);
    CHECK(code_of(job) == 98);
    for (const int fd : {listener, link, forged[0], forged[1]}) ::close(fd);
    ::unlink(path.c_str());
    ::rmdir(folder);
  }
}

}  // namespace
}  // namespace tranche::guard
