// SPDX-License-Identifier: Apache-2.0
#include "server/loop.hpp"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "engine/market_fill.hpp"
#include "engine/schedule.hpp"
#include "engine/snapshot.hpp"
#include "journal/failpoint.hpp"
#include "journal/urgent_thread.hpp"
#include "journal/verify.hpp"

namespace tranche::server {
namespace {

constexpr auto kIdleWake = std::chrono::milliseconds(500);
constexpr Duration kTickEvery = std::chrono::minutes(1);
constexpr auto kQuiet = std::chrono::microseconds(40);  // Nobody came for so long: nobody is coming.
constexpr int kPassesMax = 4;  // A batch never holds the loop for long; the next one goes on.

// What frees capacity or takes rights away must work on a full disk, too.
journal::Need need_of(const engine::Command& command) {
  const bool essential = std::holds_alternative<engine::StopJob>(command) ||
                         std::holds_alternative<engine::PauseJob>(command) ||
                         std::holds_alternative<engine::RevokeToken>(command) ||
                         std::holds_alternative<engine::RevokeRole>(command) ||
                         std::holds_alternative<engine::ChangeParty>(command) ||
                         std::holds_alternative<engine::ReportLease>(command) ||
                         std::holds_alternative<engine::LoseNode>(command);
  return essential ? journal::Need::kEssential : journal::Need::kOrdinary;
}

// Mistakes of the caller are answered; refusals of rights, quota and policy are also kept for audit.
bool is_denial(const engine::Refusal& refusal) {
  using engine::Reason;
  switch (refusal.reason) {
    case Reason::kNotFound:
    case Reason::kForbidden:
    case Reason::kQuota:
    case Reason::kPolicy:
    case Reason::kBudget:
      return true;
    case Reason::kInvalid:
    case Reason::kConflict:
    case Reason::kStale:
    case Reason::kReused:
      return false;
  }
  return true;
}

engine::Refusal reused_key() {
  return {.reason = engine::Reason::kReused,
          .rule = "idempotency_key",
          .message = "this Idempotency-Key was used before with another request",
          .fix = "use a new key for a new request"};
}

// The refusal that a record holds, when that is what it is.
const engine::Refusal* refusal_in(const engine::Events& events) {
  if (events.size() != 1) return nullptr;
  const auto* denied = std::get_if<engine::Denied>(&events.front());
  return denied == nullptr ? nullptr : &denied->refusal;
}

std::uint64_t nanoseconds_since(std::chrono::steady_clock::time_point start) {
  const auto passed = std::chrono::steady_clock::now() - start;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

}  // namespace

struct Loop::Slot {
  Done done{};
  Envelope envelope{};
  std::string command{};
  engine::Events events{};
  std::optional<engine::Refusal> refusal{};
  Fault fault = Fault::kNone;
  std::uint64_t sequence = 0;   // Of the record made for it; zero: none.
  std::uint64_t replay_of = 0;  // The record whose answer is given again.
};

Loop::Loop(LoopOptions options)
    : options_(std::move(options)),
      store_(journal::open_sqlite(options_.folder, options_.journal)),
      reserve_(options_.folder, options_.reserve),
      random_(options_.seed) {
  reload();
}

Loop::~Loop() {
  stop();
}

void Loop::reload() {
  auto recovered = recover(options_.folder, *store_, options_.log);
  state_ = std::move(recovered.state);
  replayed_from_ = recovered.snapshot_sequence;
  last_snapshot_ = recovered.snapshot_sequence;
  tokens_.rebuild(state_);
  const std::lock_guard lock(counts_mutex_);
  counts_.sequence = state_.sequence;
}

void Loop::start() {
  thread_ = std::thread([this] { run(); });
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Loop::follow(std::function<void(const Durable&)> follower) {
  followers_.push_back(std::move(follower));
}

void Loop::submit(Envelope envelope, engine::Command command, Done done) {
  std::unique_lock lock(mutex_);
  const bool stopped = stopping_ || failed_;
  if (!stopped && commands_.size() < options_.queue_max) {
    commands_.push_back({std::move(envelope), std::move(command), std::move(done)});
    lock.unlock();
    wake_.notify_one();
    return;
  }
  lock.unlock();
  done(Outcome{.fault = stopped ? Fault::kStopping : Fault::kBusy});
}

void Loop::read(Read read) {
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back(std::move(read));
  }
  wake_.notify_one();
}

bool Loop::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_ || failed_;
}

LoopCounts Loop::counts() const {
  LoopCounts counts;
  {
    const std::lock_guard lock(counts_mutex_);
    counts = counts_;
  }
  const std::lock_guard lock(mutex_);
  counts.waiting = commands_.size() + reads_.size();
  return counts;
}

wire::AuditVerdict Loop::verify() const {
  const auto found = journal::verify(*store_, 1, {});
  return {.intact = found.outcome == journal::Verification::Outcome::kIntact,
          .records = found.records,
          .checkpoints = found.checkpoints,
          .signed_through = found.signed_through,
          .first_bad = found.first_bad,
          .why = found.why,
          .head = journal::to_hex(found.head)};
}

std::string Loop::exported(Instant now) const {
  std::ostringstream out;
  journal::export_records(*store_, 1, UINT64_MAX, now, out);
  return std::move(out).str();
}

// One commit for many costs hardly more than for one. Where several commands came at once, more are on their
// way: they are waited for while they keep coming, at most as long as a commit takes, so that nobody waits
// twice as long as before. Somebody alone never waits.
void Loop::gather(std::unique_lock<std::mutex>& lock) {
  const bool crowded = last_batch_ > 1 || commands_.size() > 1;
  const auto until = std::chrono::steady_clock::now() + last_commit_;
  std::size_t had = 0;
  while (crowded && !stopping_ && commands_.size() > had && commands_.size() < options_.batch_max &&
         std::chrono::steady_clock::now() < until) {
    had = commands_.size();
    lock.unlock();
    std::this_thread::sleep_for(kQuiet);
    lock.lock();
  }
  last_batch_ = std::min(commands_.size(), options_.batch_max);
}

bool Loop::take(std::vector<Work>& commands, std::vector<Read>& reads) {
  std::unique_lock lock(mutex_);
  const auto idle = engine::schedule_due(state_, state_.now) ? std::chrono::milliseconds(0) : kIdleWake;
  wake_.wait_for(lock, idle, [&] { return stopping_ || !commands_.empty() || !reads_.empty(); });
  gather(lock);
  reads.swap(reads_);
  if (commands_.size() <= options_.batch_max) {
    commands.swap(commands_);
  } else {
    const auto end = commands_.begin() + static_cast<std::ptrdiff_t>(options_.batch_max);
    commands.assign(std::make_move_iterator(commands_.begin()), std::make_move_iterator(end));
    commands_.erase(commands_.begin(), end);
  }
  return !(stopping_ && commands.empty() && reads.empty());
}

void Loop::run() {
  // It mostly waits for the disk, and everybody waits for it: on a busy machine it must be woken at once.
  static_cast<void>(journal::make_this_thread_urgent());
  std::vector<Work> commands;
  std::vector<Read> reads;
  while (take(commands, reads)) {
    if (!commands.empty()) serve(commands);
    for (Read& read : reads) read(state_);
    commands.clear();
    reads.clear();
    housekeep();
  }
  static_cast<void>(snapshot_child_.wait());
  if (!failed_ && state_.sequence > last_snapshot_) {
    const std::string content = engine::encode_state(state_);
    try {
      journal::write_snapshot(options_.folder,
                              {.sequence = state_.sequence,
                               .chain_head = store_->head(),
                               .state_hash = journal::hash_of(content),
                               .state_format = engine::kStateFormat},
                              content);
    } catch (const std::exception& error) {
      options_.log(std::string("no snapshot at the end: ") + error.what());
    }
  }
}

void Loop::decide_one(Work& work, std::vector<Slot>& slots, std::vector<std::string>& bodies, bool room) {
  Slot& slot = slots.emplace_back();
  slot.done = std::move(work.done);
  if (const auto* seen = engine::remembered(state_, work.envelope)) {
    if (seen->body_hash == work.envelope.body_hash) {
      slot.replay_of = seen->sequence;
    } else {
      slot.refusal = reused_key();
    }
    return;
  }
  if (!room &&
      (need_of(work.command) == journal::Need::kOrdinary || !reserve_.admit(journal::Need::kEssential))) {
    slot.fault = Fault::kDiskFull;
    return;
  }
  slot.envelope = std::move(work.envelope);
  slot.envelope.seed = random_.next();
  slot.command = engine::command_name(work.command);
  auto decision = engine::decide(state_, slot.envelope, work.command);
  if (decision) {
    slot.events = std::move(*decision);
    if (slot.events.empty()) return;
  } else {
    slot.refusal = std::move(decision.error());
    if (!is_denial(*slot.refusal)) return;
    slot.events = {engine::denial(slot.envelope, work.command, *slot.refusal)};
  }
  slot.sequence = state_.sequence + 1;
  bodies.push_back(engine::encode_record(slot.envelope, slot.command, slot.events));
  engine::apply_record(state_, slot.sequence, slot.envelope, slot.events);
}

void Loop::serve(std::vector<Work>& commands) {
  const std::uint64_t durable_before = state_.sequence;
  const Instant now = std::max(options_.clock(), state_.now);
  const bool room = reserve_.admit(journal::Need::kOrdinary);
  std::vector<Slot> slots;
  std::vector<std::string> bodies;
  slots.reserve(commands.size());
  bodies.reserve(commands.size());
  for (Work& work : commands) {
    work.envelope.at = now;
    decide_one(work, slots, bodies, room);
  }
  schedule(slots, bodies, now, room);
  journal::failpoint("server.decided");
  if (!bodies.empty() && !make_durable(bodies)) {
    const Fault fault = failed_ ? Fault::kStopping : Fault::kDiskFull;
    for (Slot& slot : slots) {
      if (slot.sequence != 0 || slot.replay_of > durable_before) slot.fault = fault;
    }
    if (!failed_) reload();  // What was decided is forgotten: it never became durable.
  }
  journal::failpoint("server.durable");
  answer(slots, durable_before);
  const std::lock_guard lock(counts_mutex_);
  counts_.commands += commands.size();
  counts_.batches += 1;
  counts_.records += bodies.size();
  counts_.sequence = state_.sequence;
  counts_.disk_low = reserve_.is_low();
}

// What the batch changed may let somebody start: that is decided with it, and becomes durable with it.
void Loop::schedule(std::vector<Slot>& slots, std::vector<std::string>& bodies, Instant now, bool room) {
  for (int pass = 0; pass < kPassesMax && engine::schedule_due(state_, now); ++pass) {
    Work work{Envelope{.at = now, .origin = "local"}, engine::Schedule{}, [](const Outcome&) {}};
    decide_one(work, slots, bodies, room);
  }
}

bool Loop::make_durable(const std::vector<std::string>& bodies) {
  const auto start = std::chrono::steady_clock::now();
  try {
    try {
      store_->append(bodies, state_.now);
    } catch (const journal::DiskFull& error) {
      options_.log(std::string("disk full: ") + error.what());
      if (!reserve_.release()) return false;
      store_->append(bodies, state_.now);
    }
  } catch (const journal::DiskFull&) { return false; } catch (const std::exception& error) {
    // After a failed sync nobody knows what is on the disk. Stop, say so, and let a restart find out.
    failed_ = true;
    options_.log(std::string("the journal failed: ") + error.what());
    if (options_.on_fatal) options_.on_fatal(error.what());
    return false;
  }
  const std::uint64_t took = nanoseconds_since(start);
  last_commit_ = std::chrono::nanoseconds(took);
  const std::lock_guard lock(counts_mutex_);
  counts_.commit_nanoseconds += took;
  return true;
}

void Loop::answer(std::vector<Slot>& slots, std::uint64_t durable_before) {
  std::uint64_t refused = 0;
  std::uint64_t replayed = 0;
  std::uint64_t faults = 0;
  for (const Slot& slot : slots) {
    if (slot.sequence == 0 || slot.fault != Fault::kNone) continue;
    for (const engine::Event& event : slot.events) tokens_.follow(event);
    const Durable durable{slot.sequence, &slot.envelope, slot.command, &slot.events, &state_};
    for (const auto& follower : followers_) follower(durable);
  }
  for (Slot& slot : slots) {
    refused += slot.refusal.has_value();
    replayed += slot.replay_of != 0;
    faults += slot.fault != Fault::kNone;
    if (slot.replay_of != 0 && slot.fault == Fault::kNone) {
      answer_again(slot, slots, durable_before);
      continue;
    }
    slot.done(Outcome{.fault = slot.fault,
                      .refusal = slot.refusal ? &*slot.refusal : nullptr,
                      .events = &slot.events,
                      .sequence = slot.sequence,
                      .at = slot.envelope.at,
                      .state = &state_});
  }
  const std::lock_guard lock(counts_mutex_);
  counts_.refused += refused;
  counts_.replayed += replayed;
  counts_.faults += faults;
}

void Loop::answer_again(Slot& slot, const std::vector<Slot>& slots, std::uint64_t durable_before) {
  const auto give = [&](const engine::Events& events, Instant at) {
    slot.done(Outcome{.refusal = refusal_in(events),
                      .events = &events,
                      .sequence = slot.replay_of,
                      .at = at,
                      .replayed = true,
                      .state = &state_});
  };
  if (slot.replay_of > durable_before) {
    const auto original = std::find_if(
        slots.begin(), slots.end(), [&](const Slot& other) { return other.sequence == slot.replay_of; });
    give(original->events, original->envelope.at);
    return;
  }
  store_->scan(slot.replay_of, slot.replay_of, [&](std::uint64_t sequence, std::string_view body) {
    const auto record = engine::decode_record(body);
    if (!record) throw journal::Corrupt(sequence, record.error());
    give(record->events, record->envelope.at);
    return false;
  });
}

void Loop::housekeep() {
  const Instant now = std::max(options_.clock(), state_.now);
  try {
    store_->tick(now);
  } catch (const std::exception& error) {
    options_.log(std::string("a checkpoint could not be signed yet: ") + error.what());
  }
  const auto child = snapshot_child_.poll();
  if (child == journal::SnapshotChild::Outcome::kFailed) options_.log("a snapshot failed");
  const bool due = state_.sequence - last_snapshot_ >= options_.snapshot_every;
  if (due && child != journal::SnapshotChild::Outcome::kRunning) snapshot_in_child();
  if (engine::schedule_due(state_, now) && !failed_) {
    std::vector<Work> none;
    serve(none);
  }
  // At the start, too: what came due while nobody was there is done at once.
  const bool market_due = engine::quotes_due(state_, now) || engine::contracts_due(state_, now);
  if ((now - last_tick_ < kTickEvery && !market_due) || failed_) return;
  last_tick_ = now;
  std::vector<Work> tick;
  tick.push_back({Envelope{.origin = "local"}, engine::Tick{}, [](const Outcome&) {}});
  serve(tick);
}

void Loop::snapshot_in_child() {
  last_snapshot_ = state_.sequence;
  try {
    snapshot_child_.start(options_.folder,
                          *store_,
                          {.sequence = state_.sequence,
                           .chain_head = store_->head(),
                           .state_hash = {},
                           .state_format = engine::kStateFormat},
                          [this] { return engine::encode_state(state_); });
  } catch (const std::exception& error) { options_.log(std::string("no snapshot: ") + error.what()); }
}

}  // namespace tranche::server
