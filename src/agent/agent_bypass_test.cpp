// SPDX-License-Identifier: Apache-2.0
// Jobs that go around the guard, on a living agent: real sandboxes, the guard as jobs get it, the stand-in
// for NVIDIA's driver inside, and its NVML outside. Every way of docs/isolation.md is either closed or its
// job is ended for it.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "agent/test_node.hpp"
#include "gpu/vendor_ports.hpp"
#include "wire/health_codes.hpp"

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;
using wire::EndReason;
using wire::LeaseState;

constexpr PartyId kTenant{8};
constexpr VolumeId kVolume{1};  // Holds the driver and its device: a job sees nothing else of the node's.

fs::path built() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

struct GuardedNode : Node {
  fs::path volume = data / "volumes" / text(kVolume) / "data";
  std::string uuid;

  GuardedNode() {
    fs::create_directories(volume);
    for (const char* file :
         {"libcuda.so.1", "libnvidia-ml.so.1", "libbypass-plugin.so", "bypass", "bypass_static"})
      fs::copy_file(built() / "standin" / file, volume / file);
    write_whole(volume / "state.conf", "vram = 6GiB\n", 0644);
    ::setenv("TRANCHE_STANDIN", (volume / "state").c_str(), 1);
    port = [this] {
      const mode_t before = ::umask(0);
      auto nvml = gpu::open_nvml((built() / "standin/libnvidia-ml.so.1").string());
      ::umask(before);
      REQUIRE(nvml != nullptr);
      uuid = nvml->discover().front().uuid;
      return nvml;
    };
    change = [](AgentOptions& options) {
      options.guard_library = built() / "libtranche-guard.so";
      options.program = (built() / "tranche").string();
      if (std::getenv("TRANCHE_TEST_LOG") != nullptr)
        options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    };
    start();
    for (const auto& entry : fs::directory_iterator(data / "volumes")) ::chmod(entry.path().c_str(), 0711);
  }
  void run(std::uint64_t lease,
           const std::string& command,
           wire::Isolation isolation = wire::Isolation::kSoft) {
    wire::LeaseGrant given = grant(lease, command);
    given.tenant = kTenant;
    given.spec.envs.set("LD_LIBRARY_PATH", "/volume");
    given.spec.envs.set("TRANCHE_STANDIN", "/volume/state");
    given.slices.push_back(
        {.device = {3}, .uuid = uuid, .isolation = isolation, .vram = gibibytes(1), .milli = 300});
    given.spec.volumes.emplace_back();
    given.volumes.push_back({.volume = kVolume, .path = "/volume", .quota = gibibytes(64)});
    given.must_scrub = false;
    server.send(given);
  }
  // Its first line.
  std::string word_of(std::uint64_t lease) {
    std::string all;
    server.wait_for<wire::LogChunk>([&](const wire::LogChunk& chunk) {
      if (chunk.lease.value == lease && chunk.stream == wire::LogStream::kStdout) all += chunk.bytes;
      return all.find('\n') != std::string::npos;
    });
    return all.substr(0, std::min(all.find(' '), all.find('\n')));
  }
  void expect_ended_for_it(std::uint64_t lease) {
    const BootTime since = boot_time();
    const wire::LeaseReport end = server.wait_for_state({lease}, LeaseState::kEnded);
    MESSAGE("ended after ", (boot_time() - since) / 1'000'000, " ms: ", end.message);
    REQUIRE(end.reason == EndReason::kWentAround);
    CHECK_FALSE(wire::is_platform_fault(end.reason));
    CHECK(end.message.find("went around the guard: ") == 0);
    const auto signal = server.wait_for<wire::HealthSignal>([&](const wire::HealthSignal& one) {
      return one.code == wire::kWentAround && one.text.find(text(LeaseId{lease}) + ":") == 0;
    });
    CHECK(signal.uuid == uuid);
    const wire::BehaviourRecord record = record_of(lease);
    CHECK(!record.findings.empty());
    CHECK(std::count(record.limits_hit.begin(), record.limits_hit.end(), "account") == 1);
    CHECK(record.devices.size() == 1);
  }
  void kill_broker() const {
    const int link = guard::connect_to((data / "broker/broker.sock").c_str());
    ucred peer{};
    socklen_t length = sizeof peer;
    REQUIRE(::getsockopt(link, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0);
    ::close(link);
    REQUIRE(peer.pid > 1);
    ::kill(peer.pid, SIGKILL);
  }
  wire::BehaviourRecord record_of(std::uint64_t lease) {
    wire::BehaviourRecord record;
    server.wait_for<wire::Receipts>([&](const wire::Receipts& receipts) {
      for (const wire::BehaviourRecord& one : receipts.behaviours)
        if (one.lease.value == lease) record = one;
      return record.lease.value == lease;
    });
    return record;
  }
};

struct Way {
  const char* name;
  const char* command;
};
constexpr const char* kOwnLoader =
    "cp /lib64/ld-linux-x86-64.so.2 /tmp/ld && sed -i s#/etc/ld.so.preload#/etc/ld.so.prelaod# /tmp/ld && "
    "exec /tmp/ld --library-path /volume:/usr/lib/x86_64-linux-gnu /volume/bypass plain";
constexpr std::array kClosed = {
    Way{"as it is", "/volume/bypass plain"},
    Way{"no environment",
        "env -i LD_LIBRARY_PATH=/volume "
        "TRANCHE_STANDIN=/volume/state /volume/bypass plain"},
    Way{"own preload", "LD_PRELOAD=/volume/libbypass-plugin.so /volume/bypass plain"},
    Way{"another socket", "TRANCHE_GUARD_SOCKET=/nowhere /volume/bypass plain"},
    Way{"a false broker", "/volume/bypass false-broker"},
    Way{"dlopen by path", "/volume/bypass dlopen"},
    Way{"deep binding", "/volume/bypass deepbind"},
    Way{"next in line", "/volume/bypass dlsym"},
    Way{"asking the driver", "/volume/bypass procaddress"},
    Way{"dlmopen of the driver", "/volume/bypass dlmopen"},
    Way{"fork without exec", "/volume/bypass fork"},
    Way{"tracing", "/volume/bypass ptrace"}};
constexpr std::array kDetected = {Way{"dlmopen of what links the driver", "/volume/bypass dlmopen-linked"},
                                  Way{"private tables", "/volume/bypass table"},
                                  Way{"private tables, time alone", "/volume/bypass table-time"},
                                  Way{"static binary", "/volume/bypass_static"},
                                  Way{"own loader", kOwnLoader},
                                  Way{"own ledger, memory", "/volume/bypass ledger"},
                                  Way{"own ledger, time", "/volume/bypass ledger-time"}};

// The stand-in attaches to one device for the life of a process, so there is one node for all of it.
TEST_CASE("agent: each way around the guard is closed, or ends its job; who stays within is left alone") {
  GuardedNode node;
  constexpr std::uint64_t kHonest = 1;
  node.run(kHonest, "/volume/bypass honest");
  CHECK(node.word_of(kHonest) == "honest");
  std::uint64_t lease = kHonest;
  for (const Way& way : kClosed) {
    CAPTURE(std::string(way.name));
    node.run(++lease, way.command);
    const wire::LeaseReport end = node.server.wait_for_state({lease}, LeaseState::kEnded);
    CHECK(end.reason == EndReason::kExited);
    CHECK(end.exit_code == 0);
    CHECK(node.word_of(lease) == "held");
  }
  for (const Way& way : kDetected) {
    CAPTURE(std::string(way.name));
    node.run(++lease, way.command);  // It may be ended before it can say what it took.
    node.expect_ended_for_it(lease);
  }
  // Without its broker nobody is accused; the next one goes on with every account.
  node.kill_broker();
  node.run(++lease, "/volume/bypass_static");
  node.expect_ended_for_it(lease);
  node.server.send(wire::LeaseRevoke{
      .lease = {kHonest}, .epoch = 1, .way = wire::RevokeWay::kKill, .reason = EndReason::kStopped});
  CHECK(node.server.wait_for_state({kHonest}, LeaseState::kEnded).reason == EndReason::kStopped);
  const wire::BehaviourRecord record = node.record_of(kHonest);
  CHECK(record.findings.empty());
  REQUIRE(record.devices.size() == 1);
  CHECK(record.devices[0].vram_counted >= mebibytes(512));
  CHECK(record.devices[0].vram_reported >= mebibytes(512));
  CHECK(record.devices[0].time_counted > Duration{});
  CHECK(record.devices[0].time_reported > Duration{});
}

}  // namespace
}  // namespace tranche::agent
