// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loop around the engine: one thread takes commands, decides, makes a whole batch durable in one commit,
// and only then answers. Reads run on the same thread between batches, so they see durable state alone.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/envelope.hpp"
#include "base/random.hpp"
#include "base/unique_function.hpp"
#include "engine/engine.hpp"
#include "engine/record.hpp"
#include "journal/disk_reserve.hpp"
#include "journal/snapshot.hpp"
#include "journal/sqlite_store.hpp"
#include "server/recovery.hpp"
#include "server/token_directory.hpp"
#include "wire/api_job.hpp"

namespace tranche::server {

enum class Fault : std::uint8_t {
  kNone,
  kBusy,      // Too much is waiting: 503, try again.
  kDiskFull,  // Nothing was written: 507. Stops and revocations still go through.
  kStopping,  // The server ends, or its disk failed: 503.
};

// How a command ended. Everything it points to lives for the length of the call only.
struct Outcome {
  Fault fault = Fault::kNone;
  const engine::Refusal* refusal = nullptr;
  const engine::Events* events = nullptr;
  std::uint64_t sequence = 0;  // Of the record; zero when nothing was recorded.
  Instant at{};
  bool replayed = false;  // The idempotency key had been used: this is the answer given then.
  const engine::State* state = nullptr;
};

// A record that has become durable, for those who follow along.
struct Durable {
  std::uint64_t sequence = 0;
  const Envelope* envelope = nullptr;
  std::string_view command{};
  const engine::Events* events = nullptr;
  const engine::State* state = nullptr;
};

struct LoopOptions {
  std::filesystem::path folder{};
  std::size_t queue_max = 20'000;
  std::size_t batch_max = 1'024;
  std::uint64_t snapshot_every = 100'000;  // Records.
  journal::SqliteOptions journal{};
  journal::DiskReserveOptions reserve{};
  std::function<Instant()> clock{};  // Wall time; the loop never lets it run backwards.
  std::uint64_t seed = 0;
  Log log = [](const std::string&) {};
  std::function<void(const std::string& why)> on_fatal{};  // The disk failed: end the process.
};

struct LoopCounts {
  std::uint64_t commands = 0, refused = 0, replayed = 0, faults = 0, batches = 0, records = 0;
  std::uint64_t commit_nanoseconds = 0;
  std::uint64_t sequence = 0;
  std::size_t waiting = 0;
  bool disk_low = false;
};

class Loop {
 public:
  using Done = UniqueFunction<void(const Outcome&)>;
  using Read = UniqueFunction<void(const engine::State&)>;

  // Opens the journal and recovers; throws what journal::open_sqlite and recover throw.
  explicit Loop(LoopOptions options);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();
  void stop();  // Answers what is queued, writes a snapshot, closes the journal.

  // Any thread. The envelope's time and seed are set by the loop. `done` is called exactly once, on the
  // loop's thread, or at once with kBusy or kStopping.
  void submit(Envelope envelope, engine::Command command, Done done);
  void read(Read read);
  [[nodiscard]] bool stopping() const;  // Reads may not be served any more.
  // Called on the loop's thread for every record, in order. Before start() only.
  void follow(std::function<void(const Durable&)> follower);

  [[nodiscard]] TokenDirectory& tokens() { return tokens_; }
  [[nodiscard]] const journal::Store& store() const { return *store_; }
  [[nodiscard]] LoopCounts counts() const;
  // Checks the whole chain against its signatures; takes long, so on a thread that may.
  [[nodiscard]] wire::AuditVerdict verify() const;
  // Every record with its hash, and the signatures, as JSON Lines that can be checked alone.
  [[nodiscard]] std::string exported(Instant now) const;
  [[nodiscard]] bool fresh() const { return state_.parties.empty(); }  // Before start(): nothing founded yet.
  [[nodiscard]] std::uint64_t replayed_from() const { return replayed_from_; }

 private:
  struct Work {
    Envelope envelope;
    engine::Command command;
    Done done;
  };
  struct Slot;

  void run();
  [[nodiscard]] bool take(std::vector<Work>& commands, std::vector<Read>& reads);
  void gather(std::unique_lock<std::mutex>& lock);
  void serve(std::vector<Work>& commands);
  void decide_one(Work& work, std::vector<Slot>& slots, std::vector<std::string>& bodies, bool room);
  void schedule(std::vector<Slot>& slots, std::vector<std::string>& bodies, Instant now, bool room);
  [[nodiscard]] bool make_durable(const std::vector<std::string>& bodies);
  void answer(std::vector<Slot>& slots, std::uint64_t durable_before);
  void answer_again(Slot& slot, const std::vector<Slot>& slots, std::uint64_t durable_before);
  void reload();
  void housekeep();
  void snapshot_in_child();

  LoopOptions options_;
  std::unique_ptr<journal::Store> store_;
  journal::DiskReserve reserve_;
  engine::State state_;
  TokenDirectory tokens_;
  std::vector<std::function<void(const Durable&)>> followers_;
  journal::SnapshotChild snapshot_child_;
  std::uint64_t replayed_from_ = 0;
  std::uint64_t last_snapshot_ = 0;
  Instant last_tick_{};
  std::size_t last_batch_ = 0;  // How many came at once.
  std::chrono::nanoseconds last_commit_{};
  Random random_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Work> commands_;
  std::vector<Read> reads_;
  bool stopping_ = false;
  std::atomic<bool> failed_ = false;

  mutable std::mutex counts_mutex_;
  LoopCounts counts_;
  std::thread thread_;
};

}  // namespace tranche::server
