// SPDX-License-Identifier: Apache-2.0
#include "guard/cuda/measure.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "guard/clock_tie.hpp"
#include "guard/host_clock.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr std::uint32_t kRing = 64;
constexpr std::uint32_t kContexts = 16;
constexpr std::uint64_t kReferenceAgeNs = 200'000'000;
constexpr int kFirstTies = 4;
constexpr std::uint64_t kAskAgainNs = 15'000;

struct Pending {
  LaunchTicket ticket;
  Context context = nullptr;  // Of the two events below.
  Event before = nullptr;
  Event after = nullptr;
  bool has_before = false;
  bool recorded = false;
  bool batch = false;
};

// An event on a stream of our own that never has work: it is done at once, so it ties the device's clock to
// ours. The next tie is made beside the one in use and takes its place only when it is tight and the driver
// knows it: a tie that was torn by a preemption, or cannot be read yet, would make every measure wrong.
struct Reference {
  Context context = nullptr;
  Stream stream = nullptr;
  Event event = nullptr;
  Event next = nullptr;
  std::uint64_t host_ns = 0;
  std::uint64_t next_ns = 0;  // Zero: no tie under way.
  TieWidth width = {};
};

// All of it behind one flag. Who does not get it goes without a measure; nobody ever waits for it.
struct State {
  std::atomic<std::uint32_t> busy;
  Pending ring[kRing];
  std::uint32_t first = 0, count = 0;
  Reference references[kContexts];
  std::uint64_t ask_at = 0;
  std::uint64_t last_end = 0;      // Of the measure collected last.
  std::uint64_t newest_mark = 0;   // Of the measure recorded last.
  bool previous_measured = false;  // The launch before the next one ended with an event of ours.
};
State state;  // NOLINT
// The measure that this thread recorded last, and where.
thread_local std::uint64_t own_mark;  // NOLINT
thread_local Stream own_stream;       // NOLINT

class Turn {
 public:
  Turn() : got_(state.busy.exchange(1, std::memory_order_acquire) == 0) {}
  ~Turn() {
    if (got_) state.busy.store(0, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  explicit operator bool() const { return got_; }

 private:
  bool got_;
};

Context current_context() {
  Context context = nullptr;
  auto* get = DRIVER(cuCtxGetCurrent, Result(Context*));
  return get != nullptr && get(&context) == kSuccess ? context : nullptr;
}
Event new_event() {
  Event event = nullptr;
  auto* create = DRIVER(cuEventCreate, Result(Event*, unsigned));
  return create != nullptr && create(&event, kEventDefault) == kSuccess ? event : nullptr;
}
bool record(Event event, Stream stream) {
  auto* call = DRIVER(cuEventRecord, Result(Event, Stream));
  return event != nullptr && call != nullptr && call(event, stream) == kSuccess;
}

Reference* reference_for(Context context) {
  Reference* place = nullptr;
  for (Reference& each : state.references) {
    if (each.context == context) {
      place = &each;
      break;
    }
    if (place == nullptr && each.context == nullptr) place = &each;
  }
  if (place == nullptr) place = &state.references[0];
  if (place->context != context) {
    *place = {context, nullptr, new_event(), new_event(), 0, 0, {}};
    auto* create = DRIVER(cuStreamCreate, Result(Stream*, unsigned));
    if (create == nullptr || place->next == nullptr || create(&place->stream, kStreamNonBlocking) != kSuccess)
      place->event = nullptr;
  }
  return place->event == nullptr ? nullptr : place;
}

// Records the next event and says when that was on our clock, and how well that is known. The device cannot
// have seen it before the driver had told it, and that is the last thing that the call does.
bool tie(const Reference& reference, std::uint64_t& host_ns, std::uint64_t& width_ns) {
  const std::uint64_t earlier = monotonic_ns();
  if (!record(reference.next, reference.stream)) return false;
  host_ns = monotonic_ns();
  width_ns = host_ns - earlier;
  return true;
}

// Ties the clocks for the first time, or again when the last tie is old.
void refresh(Reference& reference, std::uint64_t now) {
  std::uint64_t tied_at = 0;
  std::uint64_t width_ns = 0;
  if (reference.host_ns == 0) {
    for (int attempt = 0; attempt < kFirstTies; ++attempt) {
      if (!tie(reference, tied_at, width_ns) || !reference.width.narrower(width_ns)) continue;
      std::swap(reference.event, reference.next);
      reference.host_ns = tied_at;
    }
    return;
  }
  if (now < reference.host_ns + kReferenceAgeNs) return;
  if (reference.next_ns == 0) {
    if (tie(reference, tied_at, width_ns) && reference.width.usual(width_ns)) reference.next_ns = tied_at;
    return;
  }
  auto* query = DRIVER(cuEventQuery, Result(Event));
  if (query == nullptr || query(reference.next) != kSuccess) return;
  std::swap(reference.event, reference.next);
  reference.host_ns = std::exchange(reference.next_ns, 0);
}

// Host time of an event that is done.
bool time_of(const Reference& reference, Event event, std::uint64_t& at) {
  float milliseconds = 0;
  auto* elapsed = DRIVER(cuEventElapsedTime, Result(float*, Event, Event));
  if (elapsed == nullptr || elapsed(&milliseconds, reference.event, event) != kSuccess) return false;
  at = reference.host_ns +
       static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
  return true;
}

// Nothing begins before the work that the process submitted before it has ended, on whatever stream; except
// where streams overtake each other.
void collect(const Pending& pending) {
  Reference* reference = reference_for(pending.context);
  std::uint64_t own_before = 0;
  std::uint64_t ended = 0;
  const bool known = reference != nullptr && reference->host_ns != 0 &&
                     time_of(*reference, pending.after, ended) &&
                     (!pending.has_before || time_of(*reference, pending.before, own_before));
  const bool overtaken = state.last_end >= ended;
  if (!known || (overtaken && !pending.has_before)) {
    if (!pending.batch) measure_lost(pending.ticket);
    return;
  }
  const std::uint64_t began = overtaken ? own_before : std::max(own_before, state.last_end);
  state.last_end = std::max(state.last_end, ended);
  pending.batch ? batch_ended(pending.ticket, began, ended) : work_ended(pending.ticket, began, ended);
}

// The next place of the ring with its events; null: there is none.
Pending* next_place(Context context) {
  if (state.count == kRing || context == nullptr) return nullptr;
  Pending& pending = state.ring[(state.first + state.count) % kRing];
  if (pending.context != context) pending = {{}, context, new_event(), new_event(), false, false, false};
  return pending.before == nullptr || pending.after == nullptr ? nullptr : &pending;
}

void poll_ready(std::uint64_t now) {
  if (state.count == 0 || now < state.ask_at) return;
  auto* query = DRIVER(cuEventQuery, Result(Event));
  while (state.count > 0 && query != nullptr) {
    Pending& oldest = state.ring[state.first];
    if (oldest.recorded) {
      if (oldest.ticket.submitted_at + oldest.ticket.predicted_ns / 2 > now) return;  // Cannot be done yet.
      const Result outcome = query(oldest.after);
      if (outcome == kNotReady) {
        state.ask_at = now + kAskAgainNs;
        return;
      }
      if (outcome == kSuccess) {
        collect(oldest);
      } else if (!oldest.batch) {
        measure_lost(oldest.ticket);
      }
    }
    oldest.recorded = false;
    state.first = (state.first + 1) % kRing;
    --state.count;
  }
}

}  // namespace

void poll_measures() {
  if (captures_active.load(std::memory_order_relaxed) != 0) return;
  const Turn turn;
  if (turn) poll_ready(monotonic_ns());
}

Measure begin_measure(LaunchTicket& ticket, Stream stream) {
  if (!ticket.measure) {
    state.previous_measured = false;
    return {};
  }
  const Turn turn;
  Context context = current_context();
  Pending* pending = turn ? next_place(context) : nullptr;
  Reference* reference = pending == nullptr ? nullptr : reference_for(context);
  if (reference == nullptr) {
    measure_lost(ticket);
    return {};
  }
  refresh(*reference, ticket.submitted_at);
  const bool chained =
      state.previous_measured && ticket.inline_before == 0 && (ticket.covered == 1 || ticket.in_row);
  if (ticket.in_row && !chained) {  // Another thread came between: when this one can have begun is not known.
    state.previous_measured = false;
    measure_lost(ticket);
    return {};
  }
  pending->has_before = !chained && !ticket.first_of_row && record(pending->before, stream);
  ticket.submitted_at = monotonic_ns();
  pending->ticket = ticket;
  pending->recorded = false;
  pending->batch = false;
  ++state.count;
  return {static_cast<std::uint32_t>(pending - state.ring)};
}

// Began with the end of the measure recorded before it, which is collected before it, too.
void end_batch(std::uint32_t device, std::uint64_t key, Stream stream) {
  LaunchTicket ticket;
  if (!batch_before(device, key, ticket) || stream != own_stream || captures_active.load() != 0) return;
  const Turn turn;
  if (!turn || state.newest_mark != own_mark) return;
  Pending* pending = next_place(current_context());
  if (pending == nullptr || !record(pending->after, stream)) return;
  pending->ticket = ticket;
  pending->has_before = false;
  pending->recorded = true;
  pending->batch = true;
  ++state.count;
}

void end_measure(const Measure& measure, const LaunchTicket& ticket, Stream stream, Result outcome) {
  if (measure.place == UINT32_MAX) return;
  Pending& pending = state.ring[measure.place];
  if (outcome == kSuccess && record(pending.after, stream)) {
    pending.recorded = true;
    state.previous_measured = true;
    own_mark = state.newest_mark = ticket.mark;
    own_stream = stream;
    return;
  }
  if (outcome == kSuccess) measure_lost(ticket);  // A failed launch gives its measure back itself.
}

}  // namespace tranche::guard::cuda
