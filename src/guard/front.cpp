// SPDX-License-Identifier: Apache-2.0
#include "guard/front.hpp"

#include <algorithm>

#include "guard/gate.hpp"
#include "guard/host_clock.hpp"
#include "guard/open_measures.hpp"
#include "guard/session.hpp"
#include "guard/stream_use.hpp"

namespace tranche::guard {

constinit thread_local LaunchThread launch_thread;  // NOLINT: the inline path lives here.
KernelTimes kernel_times;                           // NOLINT: what this process knows about its kernels.

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// Device time a thread takes at once, so that most launches are inline. Where nobody else may be kept waiting
// by it, twice as much each time, up to what a ceiling gives in less than a millisecond.
constexpr std::uint64_t kCreditChunkNs = 50'000;
constexpr std::uint64_t kCreditAloneNs = 800'000;
constexpr std::uint32_t kCreditDoublings = 4;
constexpr std::uint32_t kBatchLeast = 16;         // Launches in a row that are worth an event.
constexpr std::uint64_t kLongKernelNs = 100'000;  // A measure costs some 3 us of the caller: 3 % at worst.
constexpr std::uint64_t kMeasureSpacingNs = 300'000;  // Shorter ones: 1 % of the caller's time,
constexpr std::uint64_t kSpacingAloneNs = 1'000'000;  // and less where no neighbour waits for the truth.
constexpr std::uint64_t kSpacingYoungNs = 50'000;     // But a few of a new kernel soon.
constexpr std::uint64_t kFirstMeasureNs = 250'000'000;
constexpr std::uint64_t kFirstPollNs = 30'000;
// A launch that has to go the long way: its thread's credit is put out of reach.
constexpr std::int64_t kCreditHidden = std::int64_t{1} << 61;
constexpr std::uint32_t kRow = 2;  // Launches measured after the first of a row.
constexpr std::uint64_t kCopyChunk = 16ULL << 20;
constexpr std::uint64_t kCopyNsPerMiBFirst = 100'000;  // About 10 GB/s until measured.

std::atomic<void (*)()> poll_measures;          // NOLINT
std::atomic<std::uint64_t> copy_ns_per_mib;     // NOLINT
std::atomic<std::uint64_t> last_measure_at;     // NOLINT
StreamUse stream_use;                           // NOLINT
OpenMeasures open_measures;                     // NOLINT
std::atomic<std::uint32_t> open_measures_busy;  // NOLINT

void give_up(KernelTime& entry, std::uint64_t key) {
  if (entry.key.load(kRelaxed) != key) return;
  if (entry.pending.load(kRelaxed) > 0) entry.pending.fetch_sub(1, kRelaxed);
}

void conclude_open(std::uint64_t now);

// Waits at the gate until `amount_ns` is charged, or the execution time is over.
Verdict acquire(std::uint32_t device, Lane lane, std::uint64_t amount_ns, std::uint64_t& passed_at) {
  std::uint64_t began = 0;
  for (;;) {
    LaneGate gate(*control_region(), *ledger_region(), device, lane);  // A new broker brings new rules.
    const std::uint32_t seen = gate.wake_word();
    const std::uint64_t now = monotonic_ns();
    const Verdict verdict = gate.try_pass(amount_ns, now);
    if (verdict.orphaned || verdict.wants_broker) rejoin_if_orphaned(now);
    if (verdict.passage != Passage::kWait) {
      if (began != 0) gate.count_throttled(now - began);
      passed_at = now;
      return verdict;
    }
    if (began == 0) began = now;
    if (auto* poll = poll_measures.load(kRelaxed)) {
      // What was measured meanwhile may already open the gate.
      poll();
      const std::uint64_t later = monotonic_ns();
      conclude_open(later);
      const Verdict second = gate.try_pass(amount_ns, later);
      if (second.passage == Passage::kPassed) {
        gate.count_throttled(later - began);
        passed_at = later;
        return second;
      }
    }
    if (verdict.wants_broker) {
      gate.announce_wait(amount_ns);
      ring_broker();
    }
    gate.wait_out(seen, verdict);
  }
}

std::uint64_t credit_chunk(const LaneGate& gate, std::uint32_t& taken) {
  if (gate.arbitrated()) taken = 0;
  const std::uint64_t wanted = kCreditChunkNs << taken;
  if (!gate.arbitrated() && taken < kCreditDoublings) ++taken;
  return std::max(kCreditChunkNs, std::min(wanted, kCreditAloneNs * gate.share() / kShareWhole));
}

std::uint64_t spacing(const LaneGate& gate, const KernelTime& entry) {
  if (KernelTimes::is_young(entry)) return kSpacingYoungNs;
  return gate.arbitrated() ? kMeasureSpacingNs : kSpacingAloneNs;
}

// The first launch of a kernel tells how long it takes; until it has, no second one, where time is shared.
void wait_for_first_measure(const LaneGate& gate, const KernelTime& entry) {
  const std::uint64_t began = monotonic_ns();
  auto* poll = poll_measures.load(kRelaxed);
  if (poll == nullptr || !gate.limited(began)) return;
  poll();
  while (KernelTimes::wait_for_first(entry) && monotonic_ns() - began < kFirstMeasureNs) {
    gate.sleep(gate.wake_word(), kFirstPollNs);
    poll();
  }
}

}  // namespace

namespace {

// Pays from what the thread holds, or at the gate. In a row every launch passes the gate itself.
bool pay(LaneGate& gate, LaunchTicket& ticket, bool at_the_gate) {
  LaunchThread& thread = launch_thread;
  std::int64_t& credit = thread.credit_ns[ticket.device];
  const auto cost = static_cast<std::int64_t>(ticket.predicted_ns);
  if (at_the_gate || credit < cost) {
    const std::uint64_t lacking = static_cast<std::uint64_t>(std::max<std::int64_t>(cost - credit, 0));
    const std::uint64_t amount =
        at_the_gate ? std::max(lacking, ticket.predicted_ns)
                    : std::max(lacking, credit_chunk(gate, thread.chunks_taken[ticket.device]));
    const Verdict verdict = acquire(ticket.device, Lane::kCompute, amount, ticket.submitted_at);
    if (verdict.passage != Passage::kPassed) return false;
    ticket.mark = verdict.mark;
    ticket.clear_at = verdict.clear_at;
    credit += static_cast<std::int64_t>(amount);
  }
  credit -= cost;
  return true;
}

// Chooses launches for measures. Only one that passed the gate itself knows its place, so only such a one. On
// several streams the end of the launch just before, wherever it went, is when this one can have begun: so
// they are measured in a row, and of the first nothing is learned.
void choose_measure(const LaneGate& gate, LaunchTicket& ticket) {
  LaunchThread& thread = launch_thread;
  KernelTime& entry = *ticket.entry;
  const std::uint64_t now = ticket.submitted_at;
  const bool affordable = ticket.predicted_ns >= kLongKernelNs || KernelTimes::unknown(entry) ||
                          now - last_measure_at.load(kRelaxed) >= spacing(gate, entry);
  const bool due = ticket.mark != 0 && affordable && KernelTimes::measure_due(entry);
  ticket.in_row = thread.row_left > 0;
  ticket.first_of_row = !ticket.in_row && due && stream_use.several(now) && !KernelTimes::unknown(entry);
  ticket.measure = ticket.in_row || due;
  if (ticket.measure && !ticket.first_of_row) ticket.covered = KernelTimes::begin_measure(entry);
  if (!ticket.measure || ticket.first_of_row) KernelTimes::count_launch(entry);
  if (ticket.in_row) --thread.row_left;
  if (ticket.first_of_row) thread.row_left = kRow;
  if (thread.row_left > 0) thread.credit_ns[ticket.device] -= kCreditHidden;
  if (ticket.measure) last_measure_at.store(now, kRelaxed);
  thread.measured_key = ticket.measure && !ticket.first_of_row ? ticket.key : 0;
}

}  // namespace

LaunchTicket before_launch(std::uint32_t device, std::uint64_t key, const LaunchStream& stream) {
  LaunchTicket ticket;
  ticket.device = device;
  ticket.key = key;
  if (device >= kDevicesMax || attach() != Attachment::kAttached) {
    ticket.ended = true;
    return ticket;
  }
  LaunchThread& thread = launch_thread;
  LaneGate gate(*control_region(), *ledger_region(), device, Lane::kCompute);
  ticket.inline_before = thread.launches[device];
  gate.count(thread.launches[device] + 1, 0);
  thread.launches[device] = 0;
  if (thread.credit_ns[device] < -kCreditHidden / 2) thread.credit_ns[device] += kCreditHidden;
  const bool elsewhere = thread.other_streams != 0 && ticket.inline_before != 0;
  thread.stream = reinterpret_cast<std::uintptr_t>(stream.handle);
  thread.other_streams = 0;

  KernelTime& entry = kernel_times.resident(key);
  if (KernelTimes::wait_for_first(entry)) wait_for_first_measure(gate, entry);
  ticket.entry = &entry;
  ticket.predicted_ns = std::max(entry.predicted_ns.load(kRelaxed), kKernelNsMin);
  if (!pay(gate, ticket, thread.row_left > 0)) {
    ticket.ended = true;
    return ticket;
  }
  if (ticket.mark != 0)
    stream_use.note(reinterpret_cast<std::uintptr_t>(stream.identity), elsewhere, ticket.submitted_at);
  choose_measure(gate, ticket);
  return ticket;
}

void launch_failed(const LaunchTicket& ticket) {
  if (ticket.ended || ticket.entry == nullptr) return;
  launch_thread.credit_ns[ticket.device] += static_cast<std::int64_t>(ticket.predicted_ns);
  if (ticket.measure) measure_lost(ticket);
}

namespace {

// What a launch was charged is put right by what it took.
void conclude(const OpenMeasure& measure, const Reading& reading) {
  LedgerRegion* ledger = ledger_region();
  if (ledger == nullptr) return;
  if (!reading.usable) return give_up(*measure.entry, measure.key);
  const Correction correction =
      kernel_times.learn(*measure.entry, measure.key, measure.charged_ns, measure.covered, reading);
  LaneGate(*control_region(), *ledger, measure.device, Lane::kCompute)
      .correct(correction.charge_ns, correction.confirmed_ns);
}

void report_end(const LaunchTicket& ticket, std::uint64_t ended_at) {
  if (LedgerRegion* ledger = ledger_region(); ledger != nullptr && ended_at != 0)
    LaneGate(*control_region(), *ledger, ticket.device, Lane::kCompute).report_end(ticket.mark, ended_at);
}

// Held by one thread at a time; whoever does not get it goes by the model.
class OpenMeasuresTurn {
 public:
  OpenMeasuresTurn() : got_(open_measures_busy.exchange(1, std::memory_order_acquire) == 0) {}
  ~OpenMeasuresTurn() {
    if (got_) open_measures_busy.store(0, std::memory_order_release);
  }
  OpenMeasuresTurn(const OpenMeasuresTurn&) = delete;
  OpenMeasuresTurn& operator=(const OpenMeasuresTurn&) = delete;
  explicit operator bool() const { return got_; }

 private:
  bool got_;
};

bool keep_open(const OpenMeasure& measure) {
  const OpenMeasuresTurn turn;
  return turn && open_measures.keep(measure);
}

void conclude_open(std::uint64_t now) {
  const OpenMeasuresTurn turn;
  OpenMeasure measure;
  Reading reading;
  while (turn && open_measures.take(*control_region(), *ledger_region(), now, measure, reading))
    conclude(measure, reading);
}

}  // namespace

void work_completed(const LaunchTicket& ticket, std::uint64_t device_ns, std::uint64_t ended_at) {
  if (ticket.entry == nullptr) return;
  conclude({ticket.entry, ticket.key, ticket.mark, ticket.predicted_ns, ticket.covered, ticket.device, {}},
           {device_ns, device_ns, Trust::kExact});
  report_end(ticket, ended_at);
}

void work_ended(const LaunchTicket& ticket, std::uint64_t began_at, std::uint64_t ended_at) {
  if (ticket.entry == nullptr) return;
  if (ended_at <= ticket.submitted_at) return measure_lost(ticket);  // The clocks were not tied well.
  if (ticket.first_of_row) return report_end(ticket, ended_at);
  const bool known = !KernelTimes::unknown(*ticket.entry);
  OpenMeasure measure{ticket.entry,
                      ticket.key,
                      ticket.mark,
                      ticket.predicted_ns,
                      ticket.covered,
                      ticket.device,
                      {ticket.submitted_at, began_at, ticket.clear_at, ended_at, ticket.predicted_ns, known}};
  Reading reading = read_ends(measure.ends);
  report_end(ticket, ended_at);
  const bool others_before = reading.others_about && ticket.predicted_ns >= kCreditChunkNs;
  if (known && others_before && keep_open(measure)) return;
  // What else was launched meanwhile may be on other streams, and not done.
  if (ticket.entry->key.load(kRelaxed) == ticket.key && !stream_use.several(ticket.submitted_at))
    reading.device_ns = KernelTimes::at_most_each(*ticket.entry, ended_at, ticket.covered, reading.device_ns);
  conclude(measure, reading);
  if (known || !others_before) return;
  // The first of its kind is not waited for, but put right.
  measure.charged_ns = reading.device_ns;
  keep_open(measure);
}

void measure_lost(const LaunchTicket& ticket) {
  if (ticket.entry != nullptr && !ticket.first_of_row) give_up(*ticket.entry, ticket.key);
}

bool batch_before(std::uint32_t device, std::uint64_t key, LaunchTicket& ticket) {
  const LaunchThread& thread = launch_thread;
  KernelTime* entry = kernel_times.find(key);
  if (device >= kDevicesMax || thread.measured_key != key || entry == nullptr) return false;
  if (thread.other_streams != 0) return false;
  ticket.covered = thread.launches[device];
  if (ticket.covered < kBatchLeast || entry->launched.load(kRelaxed) != ticket.covered) return false;
  ticket.entry = entry;
  ticket.key = key;
  ticket.device = device;
  ticket.submitted_at = monotonic_ns();
  return KernelTimes::is_tiny(*entry);
}

void batch_ended(const LaunchTicket& ticket, std::uint64_t began_at, std::uint64_t ended_at) {
  if (ticket.entry->key.load(kRelaxed) != ticket.key || ended_at <= began_at) return;
  const std::int64_t charge = KernelTimes::learn_batch(*ticket.entry, ended_at - began_at, ticket.covered);
  if (LedgerRegion* ledger = ledger_region(); ledger != nullptr && charge != 0)
    LaneGate(*control_region(), *ledger, ticket.device, Lane::kCompute).correct(charge, 0);
}

void set_poll(void (*poll)()) {
  poll_measures.store(poll, kRelaxed);
}

CopyTicket before_copy(std::uint32_t device, std::uint64_t bytes) {
  CopyTicket ticket{bytes, 0, device, false};
  if (device >= kDevicesMax || attach() != Attachment::kAttached) {
    ticket.ended = true;
    return ticket;
  }
  const std::uint64_t rate = copy_ns_per_mib.load(kRelaxed);
  ticket.predicted_ns =
      static_cast<std::uint64_t>(static_cast<Word128>(bytes) * (rate == 0 ? kCopyNsPerMiBFirst : rate) >> 20);
  LaneGate gate(*control_region(), *ledger_region(), device, Lane::kCopy);
  gate.count(1, bytes);
  std::uint64_t passed_at = 0;
  ticket.ended = acquire(device, Lane::kCopy, ticket.predicted_ns, passed_at).passage != Passage::kPassed;
  return ticket;
}

void copy_completed(const CopyTicket& ticket, std::uint64_t device_ns) {
  if (ticket.bytes == 0 || ledger_region() == nullptr) return;
  LaneGate(*control_region(), *ledger_region(), ticket.device, Lane::kCopy)
      .correct(static_cast<std::int64_t>(device_ns) - static_cast<std::int64_t>(ticket.predicted_ns),
               device_ns);
  if (ticket.bytes < (1ULL << 18)) return;  // Small copies are latency, not bandwidth.
  const auto rate = static_cast<std::uint64_t>((static_cast<Word128>(device_ns) << 20) / ticket.bytes);
  const std::uint64_t before = copy_ns_per_mib.load(kRelaxed);
  copy_ns_per_mib.store(before == 0 ? rate : before + rate / 4 - before / 4, kRelaxed);
}

void copy_unmeasured(const CopyTicket& ticket) {
  if (LedgerRegion* ledger = ledger_region(); ledger != nullptr && ticket.bytes != 0)
    LaneGate(*control_region(), *ledger, ticket.device, Lane::kCopy).correct(0, ticket.predicted_ns);
}

void learn_copy_rate(std::uint64_t bytes, std::uint64_t ns) {
  if (bytes == 0 || ns == 0) return;
  const auto rate = static_cast<std::uint64_t>((static_cast<Word128>(ns) << 20) / bytes);
  const std::uint64_t before = copy_ns_per_mib.load(kRelaxed);
  const std::uint64_t slower = before + std::min(rate - std::min(rate, before), before / 64);
  copy_ns_per_mib.store(before == 0 || rate < before ? std::max<std::uint64_t>(rate, 1) : slower, kRelaxed);
}

std::uint64_t max_copy_chunk(std::uint32_t device) {
  const DeviceControl* limits = settings_of(device);
  return limits != nullptr && limits->co_tenants.load(kRelaxed) > 0 ? kCopyChunk : UINT64_MAX;
}

StopState should_stop() {
  const ControlRegion* control = control_region();
  if (control == nullptr) return kKeepRunning;
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t warn_at = control->warn_at.load(kRelaxed);
  const std::uint64_t end_at = control->end_at.load(kRelaxed);
  const auto told = static_cast<StopState>(control->stop.load(kRelaxed));
  if (told == kMustEnd || (end_at != 0 && now >= end_at)) return kMustEnd;
  return told == kWarned || (warn_at != 0 && now >= warn_at) ? kWarned : kKeepRunning;
}

}  // namespace tranche::guard
