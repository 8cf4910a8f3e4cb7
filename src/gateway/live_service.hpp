// SPDX-License-Identifier: Apache-2.0
#pragma once
// One service as the gateway sees it: its replicas and who waits for them. Thread-safe; nothing in it blocks.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/random.hpp"
#include "engine/service.hpp"
#include "gateway/bucket.hpp"
#include "gateway/latency_window.hpp"
#include "net/forward.hpp"
#include "wire/service.hpp"

namespace tranche::gateway {

using Clock = std::chrono::steady_clock;

// A replica as the engine knows it.
struct ReplicaFacts {
  JobId job{};
  std::string version{};
  net::ForwardTarget target{};  // Port zero: it cannot be reached yet.
  bool stale = false;           // Runs what the service no longer says.
  bool retiring = false;
};

struct Pick {
  JobId job{};
  std::string version{};
  net::ForwardTarget target{};
  PartyId caller{};  // Whom it was given to.
};

// Where a request has been already.
inline constexpr std::size_t kTriesMost = 4;
class Tried {
 public:
  Tried() = default;
  Tried(std::initializer_list<JobId> jobs) {
    for (const JobId job : jobs) add(job);
  }
  void add(JobId job) {
    if (count_ < kTriesMost) jobs_[count_++] = job;
  }
  [[nodiscard]] bool contains(JobId job) const {
    return std::find(jobs_.begin(), jobs_.begin() + count_, job) != jobs_.begin() + count_;
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::array<JobId, kTriesMost> jobs_{};
  std::uint8_t count_ = 0;
};

enum class Outcome { kGood, kBad, kNeutral };  // What a request says about its replica.

class LiveService {
 public:
  using Now = std::function<Clock::time_point()>;
  LiveService(engine::ServiceKey key, std::uint64_t seed, Now now = &Clock::now)
      : key_(std::move(key)), now_(std::move(now)), random_(seed) {}

  void configure(wire::ServiceSpec spec, PartyId owner, std::uint64_t revision = 1);
  [[nodiscard]] std::uint64_t revision() const;  // Zero: not configured yet.
  void know(const std::vector<ReplicaFacts>& facts);
  void set_ready(JobId job, bool ready);
  void drain(JobId job);  // Gets no more requests.
  void set_status(std::string status);

  // Called with a replica, or with nothing when none came in time; then what was asked is refused.
  using Granted = std::function<void(std::optional<Pick>)>;
  enum class Entry { kGranted, kWaits, kFull, kTooFast };
  Entry enter(PartyId caller, const Tried& tried, Granted granted);
  struct TooFast {  // Why kTooFast, and for how long.
    std::string words{};
    std::chrono::seconds wait{};
  };
  [[nodiscard]] TooFast why_too_fast(PartyId caller);
  void leave(const Pick& pick, Outcome outcome);
  void expire_waiters();  // Those who have waited for longer than the timeout.
  void close();           // It was removed: nobody waits for it any more, and nobody begins to.
  void count(int status, PartyId caller, std::uint64_t tokens_in, std::uint64_t tokens_out);
  void observe(Clock::duration took,
               bool is_answered);  // From the arrival of a request to its answer's begin.

  struct Copy {
    ReplicaFacts facts{};
    bool ready = false, draining = false;
    bool resting = false;  // After failures in a row.
    std::uint32_t active = 0;
    Clock::time_point since{};  // It is known, can be reached, or is not ready any more.
    Clock::time_point draining_since{};
  };
  struct Picture {
    wire::ServiceSpec spec{};
    PartyId owner{};
    std::vector<Copy> copies{};
    std::uint64_t active = 0, queued = 0;
    Instant last_request{};
    LatencyWindow::Sum latency{};
    Duration waited{};  // Longest wait for a replica, lately and now.
    std::string status{};
  };
  [[nodiscard]] Picture picture() const;
  [[nodiscard]] engine::ServiceUse take_use();  // Since the last call.
  [[nodiscard]] const engine::ServiceKey& key() const { return key_; }
  [[nodiscard]] wire::ServiceSpec spec() const;

 private:
  struct Slot {
    Copy copy{};
    std::size_t version = 0;     // Its place in the specification; past the end: it is not in there.
    std::uint32_t failures = 0;  // In a row.
    Clock::time_point closed_until{};
  };
  struct Waiting {
    Tried tried{};
    Granted granted{};
    Clock::time_point since{};
    bool is_in_line = false;  // Behind others; not for the first replica to start.
  };
  // The most of the last five to ten seconds.
  class RecentMost {
   public:
    void add(Clock::duration value, Clock::time_point now);
    [[nodiscard]] Clock::duration most(Clock::time_point now) const;

   private:
    std::int64_t slice_ = 0;
    Clock::duration current_{}, before_{};
  };
  // What a caller did lately, against its limits and its turn.
  struct CallerUse {
    Bucket requests{}, tokens{};
    double recent_tokens = 0;  // Fading.
    Clock::time_point faded{};
    std::uint32_t active = 0;
  };
  [[nodiscard]] CallerUse& use_of(PartyId caller);
  [[nodiscard]] std::map<PartyId, std::deque<Waiting>>::iterator next_queue();
  [[nodiscard]] std::optional<Pick> pick(PartyId caller, const Tried& tried);
  [[nodiscard]] Slot* slot_of(JobId job);
  void place_versions();
  [[nodiscard]] bool takes(const Slot& slot, Clock::time_point now) const;
  [[nodiscard]] bool allowed(PartyId caller);
  std::vector<std::pair<Granted, std::optional<Pick>>> serve_waiters();

  const engine::ServiceKey key_;
  const Now now_;
  mutable std::mutex mutex_;
  Random random_;
  wire::ServiceSpec spec_{};
  PartyId owner_{};
  std::uint64_t revision_ = 0;
  std::vector<Slot> slots_;
  std::map<PartyId, std::deque<Waiting>> queues_;  // One for each caller: a flood waits behind itself.
  PartyId last_served_{};
  std::size_t queued_ = 0;
  bool closed_ = false;
  std::map<PartyId, CallerUse> callers_;
  double tokens_of_a_request_ = 0;  // Lately, on average.
  engine::ServiceUse use_{};
  Instant last_request_{};
  LatencyWindow latency_;
  RecentMost waited_;
  std::string status_;
};

}  // namespace tranche::gateway
