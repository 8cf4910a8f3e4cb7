// SPDX-License-Identifier: Apache-2.0
#include "guard/broker.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <vector>

#include "guard/broker_fixture.hpp"

namespace tranche::guard {
namespace {

TEST_CASE("broker: processes of a tenant share one account, also across PID namespaces") {
  BrokerProcess broker;
  BrokerClient client(broker.socket());
  const auto regions = client.create_tenant("one", limits_of(1000), broker.tenant(1));
  const pid_t holder = child_of(broker.tenant(1), false, [] {
    if (!reserve(0, 700).granted) return 1;
    ::pause();
    return 0;
  });
  REQUIRE(eventually([&] { return usage_of(*regions, 0).vram_used == 700; }));
  CHECK(code_of(child_of(broker.tenant(1), true, [] { return reserve(0, 301).granted ? 1 : 0; })) == 0);
  CHECK(code_of(child_of(broker.tenant(1), true, [] { return reserve(0, 300).granted ? 0 : 1; })) == 0);
  ::kill(holder, SIGKILL);
  code_of(holder);
  CHECK(eventually([&] { return usage_of(*regions, 0).vram_used == 0; }));
}

TEST_CASE("broker: the death of a process in its own PID namespace gives its bytes back") {
  BrokerProcess broker;
  BrokerClient client(broker.socket());
  const auto regions = client.create_tenant("one", limits_of(1000), broker.tenant(1));
  for (const bool own_namespace : {false, true}) {
    CHECK(code_of(child_of(
              broker.tenant(1), own_namespace, [] { return reserve(0, 900).granted ? 0 : 1; })) == 0);
    CHECK(eventually([&] { return usage_of(*regions, 0).vram_used == 0; }));
  }
  CHECK(usage_of(*regions, 0).vram_peak == 900);
}

TEST_CASE("broker: limits change under a running job, upwards at once") {
  BrokerProcess broker;
  BrokerClient client(broker.socket());
  const auto regions = client.create_tenant("one", limits_of(100), broker.tenant(1));
  const pid_t job = child_of(broker.tenant(1), false, [] {
    if (reserve(0, 150).granted) return 1;
    return eventually([] { return reserve(0, 150).granted; }) ? 0 : 2;
  });
  REQUIRE(eventually([&] { return usage_of(*regions, 0).refusals > 0; }));
  client.set_limits("one", limits_of(200));
  CHECK(code_of(job) == 0);
}

TEST_CASE("broker: three hundred processes join at once") {
  BrokerProcess broker;
  BrokerClient client(broker.socket());
  const auto regions = client.create_tenant("one", limits_of(1'000'000), broker.tenant(1));
  std::vector<pid_t> children;
  for (int i = 0; i < 300; ++i)
    children.push_back(child_of(broker.tenant(1), false, [] { return reserve(0, 10).granted ? 0 : 1; }));
  int wrong = 0;
  for (const pid_t child : children) wrong += code_of(child) == 0 ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(eventually([&] { return usage_of(*regions, 0).vram_used == 0; }));
  CHECK(usage_of(*regions, 0).vram_peak >= 10);
}

TEST_CASE("broker: a second tenant turns the gate to arbitration and zeroing on, and back when it leaves") {
  BrokerProcess broker;
  BrokerClient client(broker.socket());
  const auto first = client.create_tenant("one", limits_of(100), broker.tenant(1));
  const auto second = client.create_tenant("two", limits_of(100), broker.tenant(2));
  const auto stay = [] {
    ::pause();
    return 0;
  };
  const pid_t a = child_of(broker.tenant(1), false, stay);
  const auto gate = [](const TenantRegions& regions) {
    return static_cast<Gate>(regions.control().devices[0].lanes[0].gate.load());
  };
  CHECK(eventually([&] { return gate(*first) == Gate::kAlone && !client.list().empty(); }));
  const pid_t b = child_of(broker.tenant(2), false, stay);
  CHECK(eventually([&] { return gate(*first) == Gate::kArbitrated && gate(*second) == Gate::kArbitrated; }));
  CHECK((first->control().devices[0].flags.load() & kZeroOnFree) != 0);
  ::kill(b, SIGKILL);
  code_of(b);
  CHECK(eventually([&] { return gate(*first) == Gate::kAlone; }));
  CHECK((first->control().devices[0].flags.load() & kZeroOnFree) == 0);
  ::kill(a, SIGKILL);
  code_of(a);
}

TEST_CASE("broker: nobody but the broker can write the limits") {
  const int fd = create_region("test", sizeof(ControlRegion));
  REQUIRE(map_region(fd, sizeof(ControlRegion), true) != nullptr);
  seal_control(fd);
  CHECK(map_region(fd, sizeof(ControlRegion), true) == nullptr);
  CHECK(map_region(fd, sizeof(ControlRegion), false) != nullptr);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int again = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  CHECK((again < 0 || map_region(again, sizeof(ControlRegion), true) == nullptr));
  CHECK(::pwrite(fd, "x", 1, 64) < 0);
  CHECK(::ftruncate(fd, 0) < 0);
  ::close(fd);
  if (again >= 0) ::close(again);
}

TEST_CASE("broker: garbage and strangers are answered, not obeyed") {
  BrokerProcess broker;
  const int link = connect_to(broker.socket().c_str());
  REQUIRE(link >= 0);
  Request request;
  request.magic = 1;
  Reply reply;
  int fds[kFdsMax];
  REQUIRE(send_message(link, &request, sizeof request, nullptr, 0));
  REQUIRE(receive_message(link, &reply, sizeof reply, fds, kFdsMax));
  CHECK(reply.answer == Answer::kBadVersion);
  CHECK(send_message(link, "short", 5, nullptr, 0));
  CHECK(eventually([&] { return BrokerClient::answers(broker.socket()); }));
  ::close(link);
}

}  // namespace
}  // namespace tranche::guard
