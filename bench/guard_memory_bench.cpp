// SPDX-License-Identifier: Apache-2.0
// The guard's memory on the simulated device: never a byte over, exact after any death, given back in a
// pause, and left without contents.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/guard_lab.hpp"
#include "bench/guard_rows.hpp"
#include "guard/front.hpp"
#include "guard/host_clock.hpp"
#include "guard/session.hpp"

namespace tranche::bench {
namespace {

using guard::monotonic_ns;

struct Churn {
  double failed = 64, refused = 0, most = 0;
  bool exact = false;
};

// One tenant of 6 GiB on a device of 16; 64 processes begin together, when each has its context.
Churn churn_through(const std::string& paths) {
  constexpr double kLimit = 6.0 * (1ULL << 30);
  GuardLab lab("event_lag=20us,context=16MiB", Scheduling::kOrdinary);
  const std::string start = std::to_string(monotonic_ns() + 6'000'000'000);
  const std::string told = lab.shell(
      "$BUILD/tranche guard run --quiet --socket $BROKER --name churn --vram 6GiB -- sh -c '"
      "i=0; while [ $i -lt 64 ]; do i=$((i+1)); $BUILD/standin/churn --seconds 3 --seed $i --max-mib 48 "
      "--live 8 "
      "--paths " +
      paths + " --start-ns " + start +
      " & done; wait; sleep 0.2; $BUILD/tranche guard top --once --socket $BROKER' 2>/dev/null");
  Churn result;
  for (std::size_t at = told.find('{'); at != std::string::npos; at = told.find('{', at + 1)) {
    result.refused += number_in(told.substr(at, told.find('}', at) - at + 1), "refused");
    --result.failed;
  }
  char held[32] = "";
  const std::size_t row = told.find("\nchurn ");
  if (row != std::string::npos) std::sscanf(told.c_str() + row + 1, "%*s %*s %31s", held);
  result.exact = std::string(held) == "0B";
  const double most = number_in(lab.stats(1), "asked_most");
  result.most = most < 0 ? NAN : most * 100 / kLimit;
  return result;
}

// The size of a module is known only once it is loaded, and the driver rounds the memory of graphs: apart.
void churn(Rows& out) {
  const Churn sized = churn_through("plain,pitch,managed,async,pool,vmm,array,array3d,mipmap");
  out.add("64 processes, every path: processes that failed", sized.failed, "", 0, Better::kLower);
  out.add(
      "64 processes, every path: allocations refused at the limit", sized.refused, "", 0, Better::kHigher);
  out.add("64 processes, every path: most bytes on the device, of the limit",
          sized.most,
          "%",
          100,
          Better::kLower,
          "HAMi-core: 16 GiB taken under an 8 GiB limit");
  out.add("64 processes, every path: account exact at the end", sized.exact ? 1 : 0, "", 1, Better::kHigher);
  const Churn late = churn_through("graph,module");
  out.add("64 processes, graphs and modules: most bytes on the device, of the limit",
          late.most,
          "%",
          100,
          Better::kLower);
  out.add("64 processes, graphs and modules: account exact at the end",
          late.exact ? 1 : 0,
          "",
          1,
          Better::kHigher);
}

struct Waits {
  static constexpr std::size_t kBuckets = 40;  // Of powers of two of nanoseconds.
  std::atomic<std::uint64_t> counts[kBuckets];
  std::atomic<std::uint64_t> longest;
  std::atomic<bool> stop;
};

void survive(Waits& waits) {
  while (!waits.stop.load(std::memory_order_relaxed)) {
    const std::uint64_t began = monotonic_ns();
    const bool granted = guard::reserve(0, 4096).granted;
    if (granted) guard::release(0, 4096);
    const std::uint64_t took = std::max<std::uint64_t>(1, monotonic_ns() - began);
    waits.counts[63 - static_cast<std::size_t>(__builtin_clzll(took))].fetch_add(1);
    if (took > waits.longest.load()) waits.longest.store(took);
    ::usleep(50);
  }
}

// A process of its own PID namespace that takes and gives without end.
pid_t victim(const std::string& socket, unsigned seed) {
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0));
  if (child != 0) return child;
  ::setenv(guard::kSocketVariable, socket.c_str(), 1);
  std::minstd_rand random(seed);
  for (;;) {
    const std::uint64_t bytes = 1 + random() % 100'000;
    if (guard::reserve(0, bytes).granted && random() % 2 == 0) guard::release(0, bytes);
  }
}

double percentile_ms(const Waits& waits, double part) {
  std::uint64_t all = 0;
  for (const auto& count : waits.counts) all += count.load();
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < Waits::kBuckets; ++i) {
    seen += waits.counts[i].load();
    if (static_cast<double>(seen) >= part * static_cast<double>(all))
      return static_cast<double>(2ULL << i) / 1e6;
  }
  return 0;
}

void kills(Rows& out) {
  constexpr int kKills = 10'000;
  constexpr int kAtOnce = 4;
  const std::uint64_t began = monotonic_ns();
  GuardLab lab("event_lag=20us", Scheduling::kOrdinary);
  guard::BrokerClient broker(lab.broker_socket());
  guard::TenantLimits limits;
  limits.device_count = 1;
  limits.devices[0] = fair(100);
  const std::string socket = lab.folder() + "/kills";
  const auto regions = broker.create_tenant("kills", limits, socket);
  auto* waits = static_cast<Waits*>(
      ::mmap(nullptr, sizeof(Waits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t survivor = ::fork();
  if (survivor == 0) {
    ::setenv(guard::kSocketVariable, socket.c_str(), 1);
    survive(*waits);
    ::_exit(0);
  }
  std::minstd_rand random(11);
  int killed = 0;
  for (; killed < kKills && monotonic_ns() - began < 60'000'000'000; killed += kAtOnce) {
    pid_t children[kAtOnce];
    for (pid_t& child : children) child = victim(socket, static_cast<unsigned>(random()));
    ::usleep(static_cast<useconds_t>(300 + random() % 1500));
    for (int i = 0; i < kAtOnce; ++i)
      if ((killed + i) % 7 == 0) ::kill(children[i], SIGSTOP);
    if (killed % 70 == 0)
      ::usleep(1'000);  // Some are only stopped for a while: nobody waits for them either.
    for (const pid_t child : children) ::kill(child, SIGKILL);
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  }
  waits->stop.store(true);
  ::waitpid(survivor, nullptr, 0);
  std::uint64_t left = UINT64_MAX;
  for (int i = 0; i < 1000 && left != 0; ++i) {
    ::usleep(5'000);
    left = guard::usage_of(*regions, 0).vram_used;
  }
  out.add("kill -9 of holders, some stopped first: kills", killed, "", kKills, Better::kHigher);
  out.add("kill -9 of holders: p99 wait of a survivor, at most",
          percentile_ms(*waits, 0.99),
          "ms",
          10,
          Better::kLower,
          "HAMi-core: lock hangs reported");
  out.add("kill -9 of holders: longest wait of a survivor",
          static_cast<double>(waits->longest.load()) / 1e6,
          "ms",
          0,
          Better::kLower);
  out.add("kill -9 of holders: account exact after reclaim", left == 0 ? 1 : 0, "", 1, Better::kHigher);
  out.add("kill -9 of holders: VRAM they held at most",
          static_cast<double>(guard::usage_of(*regions, 0).vram_peak) / 1e6,
          "MB",
          0,
          Better::kHigher);
  ::munmap(waits, sizeof(Waits));
}

void pause(Rows& out) {
  GuardLab lab("event_lag=20us", Scheduling::kOrdinary);
  const std::string told = lab.shell(
      "mkfifo in; $BUILD/tranche guard run --quiet --socket $BROKER --name keep --vram 4GiB -- "
      "$BUILD/standin/canary --mode keep --mib 1024 < in > out & exec 9> in; "
      "while ! grep -q ready out; do sleep 0.05; done; "
      "$BUILD/tranche guard pause keep --socket $BROKER; $BUILD/standin/standin_stats 1; "
      "$BUILD/tranche guard resume keep --socket $BROKER; echo go >&9; wait; cat out");
  double back = 0;
  double held = 0;
  const std::size_t at = told.find("paused: ");
  if (at != std::string::npos) std::sscanf(told.c_str() + at, "paused: %lf of %lf", &back, &held);
  out.add(
      "pause of a CUDA job: VRAM given back", held == 0 ? 0 : back * 100 / held, "%", 95, Better::kHigher);
  out.add("pause of a CUDA job: free on the device meanwhile",
          number_in(told, "free") * 100 / static_cast<double>(16ULL << 30),
          "%",
          0,
          Better::kHigher);
  out.add("pause and resume of a CUDA job: result identical",
          number_in(told, "wrong_words") == 0 ? 1 : 0,
          "",
          1,
          Better::kHigher);
}

void zeroing(Rows& out) {
  for (const int mib : {1, 16, 64, 256}) {
    GuardLab lab("event_lag=20us", Scheduling::kOrdinary);
    const Job idle{"periodic",
                   {"--count", "1", "--kernel", "1us", "--period-ms", "5900", "--seconds", "6"},
                   fair(50),
                   true};
    const Job work{"handover", {"--mib", std::to_string(mib), "--seconds", "0.5"}, fair(50), true};
    const Figures figures = lab.run({work, idle}, 3.0)[0];
    const auto ratio = [&](const char* a, const char* b) {
      const auto over = figures.find(a);
      const auto under = figures.find(b);
      return over == figures.end() || under == figures.end() || under->second == 0
                 ? 0
                 : over->second * 100 / under->second;
    };
    const std::string size = std::to_string(mib) + " MiB";
    out.add("zeroing on free while sharing, " + size + ": of copy bandwidth",
            ratio("free", "copy"),
            "%",
            80,
            Better::kHigher);
    out.add("zero_and_verify, " + size + ": of the bandwidth of copies to the host",
            ratio("verify", "read"),
            "%",
            0,
            Better::kHigher);
  }
}

}  // namespace

std::vector<GuardPart> guard_memory_parts() {
  return {{"churn", 22, churn}, {"kills", 20, kills}, {"pause", 4, pause}, {"zeroing", 37, zeroing}};
}

}  // namespace tranche::bench
