// SPDX-License-Identifier: Apache-2.0
#include "engine/booking.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "engine/attempt.hpp"
#include "engine/booking_limits.hpp"
#include "engine/decide.hpp"
#include "engine/maintenance.hpp"
#include "engine/market_claims.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kWindowsMax = 1000;
constexpr Duration kShortest = std::chrono::minutes(5);
constexpr Duration kLongest = std::chrono::hours(24 * 366);
constexpr Duration kLate = std::chrono::minutes(1);  // A window may begin "now".

std::optional<Refusal> windows_problem(const std::vector<TimeSpan>& windows, Instant now) {
  if (windows.empty()) return invalid("windows", "there is no window to book", "give --from and --for");
  if (windows.size() > kWindowsMax)
    return invalid("windows", "a booking has at most 1000 windows", "end the recurrence sooner: --until");
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const TimeSpan& window = windows[i];
    if (window.from < now - kLate) return invalid("from", "that time has passed", "give a later --from");
    if (window.to - window.from < kShortest || window.to - window.from > kLongest)
      return invalid("for", "a window lasts from 5 minutes to a year", "for example --for 3h");
    if (i > 0 && window.from < windows[i - 1].to)
      return invalid("every",
                     "the windows overlap: the next begins before one ends",
                     "give a shorter --for, or repeat less often");
  }
  return std::nullopt;
}

// RFC 3339 in the zone of whoever asked.
std::string local_text(Instant at, std::int32_t offset) {
  std::string out = text(at + std::chrono::seconds(offset));
  if (offset == 0) return out;
  out.pop_back();  // The Z.
  const auto pair = [](std::int32_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  const std::int32_t minutes = std::abs(offset) / 60;
  return out + (offset < 0 ? '-' : '+') + pair(minutes / 60) + ':' + pair(minutes % 60);
}

std::string span_text(const TimeSpan& span, std::int32_t offset) {
  return local_text(span.from, offset) + '/' + local_text(span.to, offset);
}

Refusal nothing_fits(const State& state, Instant now, const WindowAsk& wanted, std::int32_t offset) {
  Refusal refusal{.reason = Reason::kConflict,
                  .rule = "calendar",
                  .message = "what you ask for is taken during " + span_text(wanted.span, offset)};
  std::string list;
  for (const TimeSpan& span : nearest_windows(state, now, wanted))
    list += (list.empty() ? "" : ", ") + span_text(span, offset);
  refusal.fix = list.empty() ? "ask for a smaller share, or a shorter window" : "nearest that fit: " + list;
  return refusal;
}

bool is_there_simulated(const State& state, const WindowAsk& wanted) {
  wire::Ask ask = wanted.ask;
  if (std::exchange(ask.simulated, true)) return false;
  return is_offered(state, {ask, wanted.trust_group, wanted.environment, wanted.span}) != Offered::kNoShape;
}

Refusal not_offered(const State& state, Offered offer, const WindowAsk& wanted) {
  const wire::Ask& ask = wanted.ask;
  if (offer == Offered::kNoShape) {
    return {.reason = Reason::kConflict,
            .rule = "no_such_device",
            .message = "nothing connected is, or has, " + (ask.gpus.empty() ? "that shape" : ask.gpus),
            .fix = is_there_simulated(state, wanted) ? "simulated devices take bookings that say --simulated"
                                                     : "tranche gpus shows what there is"};
  }
  return {.reason = Reason::kConflict,
          .rule = "environment",
          .message = "no node that has " + (ask.gpus.empty() ? "that shape" : ask.gpus) +
                     " offers the environment wanted",
          .fix = "tranche node list -o wide shows what nodes offer; or book without it"};
}

// What stands in the way of maintenance on a device: somebody's claim, or an offer on the market.
std::optional<Refusal> taken_during(const State& state,
                                    const Node& node,
                                    DeviceId device,
                                    const TimeSpan& work,
                                    const TimeSpan& claimed,
                                    std::int32_t offset) {
  const auto meets = [](const CalendarClaim& claim, const TimeSpan& span) {
    return claim.from < span.to && claim.to > span.from;
  };
  for (const CalendarClaim& claim : state.index.calendar->claims_on(device)) {
    if (!meets(claim, claimed)) continue;
    const std::string booked =
        " is booked during " + span_text({claim.from, claim.to}, offset) + " (" + text(claim.claim) + ")";
    if (meets(claim, work))
      return Refusal{.reason = Reason::kConflict,
                     .rule = "calendar",
                     .message = node.name + booked,
                     .fix = "choose another time, or cancel that booking first"};
    return Refusal{.reason = Reason::kConflict,
                   .rule = "calendar",
                   .message = node.name + booked +
                              ", and its devices are tested after the window, which takes up to " +
                              text(claimed.to - work.to),
                   .fix = "end the window by " + local_text(claim.from - (claimed.to - work.to), offset)};
  }
  for (const CalendarClaim& offer : listed_on(state, device)) {
    if (!meets(offer, claimed)) continue;
    return Refusal{.reason = Reason::kConflict,
                   .rule = "calendar",
                   .message = text(device) + " of " + node.name +
                              " is offered on the market during that window, or the test after it",
                   .fix = "choose another time, or cancel the offer first"};
  }
  return std::nullopt;
}

void forget(State& state, Booking& booking) {
  for (std::uint32_t window = 0; window < booking.windows.size(); ++window)
    if (booking.windows[window].state != WindowState::kClosed) state.index.calendar->remove(booking, window);
}

}  // namespace

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const BookWindows& given) {
  const PartyId owner = given.owner == PartyId{} ? actor.party : given.owner;
  BookWindows command = given;
  if (given.open_ended) command.windows = within_lead(state, envelope.at, owner, given.windows);
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, owner)) return refuse(*refusal);
  if (command.ask.instances == 0)
    return refuse(invalid("gpus", "a booking is of devices", "for example: tranche book H100:0.5 ..."));
  if (auto refusal = windows_problem(command.windows, envelope.at)) return refuse(*refusal);
  if (auto refusal = booking_limit_problem(state, envelope.at, owner, command)) return refuse(*refusal);
  WindowsBooked booked{.id = {state.next_claim},
                       .owner = owner,
                       .tenant = tenant_of(state, owner),
                       .name = command.name,
                       .ask = command.ask,
                       .zone = command.zone,
                       .recurrence = command.recurrence,
                       .environment = command.environment};
  booked.trust_group = trust_group(state, booked.tenant);
  for (const TimeSpan& span : command.windows) {
    const WindowAsk wanted{command.ask, booked.trust_group, command.environment, span};
    if (booked.windows.empty()) {
      const Offered offer = is_offered(state, wanted);
      if (offer != Offered::kYes) return refuse(not_offered(state, offer, wanted));
    }
    auto places = find_places(state, envelope.at, wanted);
    if (!places) return refuse(nothing_fits(state, envelope.at, wanted, command.utc_offset_seconds));
    booked.windows.push_back({.from = span.from, .to = span.to, .places = std::move(*places)});
  }
  return Events{std::move(booked)};
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const PlanMaintenance& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr || !can_see(state, actor, node->owner)) return refuse(not_found());
  if (auto refusal = check_access(state, actor, Action::kManageCapacity, node->owner))
    return refuse(*refusal);
  if (auto refusal = windows_problem(command.windows, envelope.at)) return refuse(*refusal);
  std::vector<DeviceId> devices = node->devices;
  std::erase_if(devices, [&](DeviceId id) { return state.devices.at(id).state == DeviceState::kRetired; });
  if (devices.empty())
    return refuse(invalid("node", node->name + " has no devices", "tranche node show " + node->name));
  WindowsBooked booked{.id = {state.next_claim},
                       .kind = ClaimKind::kMaintenance,
                       .owner = node->owner,
                       .name = command.name.empty() ? "maintenance of " + node->name : command.name,
                       .zone = command.zone,
                       .recurrence = command.recurrence};
  booked.ask.isolation = Isolation::kDedicated;
  booked.ask.instances = static_cast<std::uint32_t>(devices.size());
  booked.ask.milli_each = policy::kDeviceMilli;
  BookedPlace everything{.node = node->id};
  for (const DeviceId id : devices)
    everything.slices.push_back(
        {.device = id, .milli = policy::kDeviceMilli, .vram = state.devices.at(id).facts.vram.count});
  booked.ask.time = time_for_tests(state, devices);
  for (const TimeSpan& span : command.windows) {
    if (!booked.windows.empty() && span.from < booked.windows.back().to)
      return refuse(invalid("every",
                            "the next window begins before the devices were tested after the one before, "
                            "which takes up to " +
                                text(booked.ask.time),
                            "give a shorter --for, or repeat less often"));
    const TimeSpan claimed{span.from, span.to + booked.ask.time};
    for (const DeviceId id : devices)
      if (auto refusal = taken_during(state, *node, id, span, claimed, command.utc_offset_seconds))
        return refuse(*refusal);
    booked.windows.push_back({.from = claimed.from, .to = claimed.to, .places = {everything}});
  }
  return Events{std::move(booked)};
}

void apply(State& state, const Envelope& envelope, const WindowsBooked& event) {
  tally(state, event.windows, envelope.at);
  const auto at = state.bookings.emplace_hint(state.bookings.end(),
                                              event.id,
                                              Booking{.id = event.id,
                                                      .kind = event.kind,
                                                      .owner = event.owner,
                                                      .tenant = event.tenant,
                                                      .name = event.name,
                                                      .ask = event.ask,
                                                      .trust_group = event.trust_group,
                                                      .zone = event.zone,
                                                      .recurrence = event.recurrence,
                                                      .environment = event.environment,
                                                      .windows = event.windows,
                                                      .made = envelope.at,
                                                      .version = state.sequence,
                                                      .contract = event.contract});
  state.next_claim = std::max(state.next_claim, event.id.value + 1);
  for (std::uint32_t window = 0; window < event.windows.size(); ++window)
    state.index.calendar->add(state, at->second, window);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const CancelBooking& command) {
  const Booking* booking = state.booking(command.id);
  if (booking == nullptr || !can_see(state, actor, *booking)) return refuse(not_found());
  const Action needed = booking->kind == ClaimKind::kMaintenance ? Action::kManageCapacity : Action::kStopJob;
  if (!may(state, actor, needed, booking->owner)) {
    return refuse(Refusal{.reason = Reason::kForbidden,
                          .rule = "role",
                          .where = path_of(state, booking->owner),
                          .message = "you may see this booking, but not cancel it",
                          .fix = "ask its owner or an administrator"});
  }
  if (booking->kind == ClaimKind::kContract) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "contract",
                          .message = text(booking->id) + " was bought on the market",
                          .fix = "sell it on: tranche market sell"});
  }
  if (booking->state != BookingState::kBooked) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "ended",
                          .message = text(booking->id) + " has ended already",
                          .fix = "tranche book show " + text(booking->id)});
  }
  Events events{BookingCancelled{booking->id, booking->owner}};
  for (const BookedWindow& window : booking->windows)
    if (booking->kind == ClaimKind::kMaintenance && window.state == WindowState::kOpen)
      append_maintenance_ends(state, window, "maintenance was cancelled: " + booking->name, events);
  for (const LeaseId id : leases_in(state, *booking)) {
    const Lease& lease = state.leases.at(id);
    if (lease.live() && !lease.revoked)
      events.push_back(
          revocation(state, lease, EndReason::kWindowClosed, "its booking was cancelled", JobId{}));
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const BookingCancelled& event) {
  Booking& booking = state.bookings.at(event.id);
  tally(state, booking.windows, envelope.at);
  forget(state, booking);
  booking.state = BookingState::kCancelled;
  for (BookedWindow& window : booking.windows) window.state = WindowState::kClosed;
  booking.version = state.sequence;
  state.index.capacity->refresh_holds(state, booking);
  state.index.capacity->changed();
}

void apply(State& state, const Envelope&, const WindowOpened& event) {
  Booking& booking = state.bookings.at(event.id);
  booking.windows[event.window].state = WindowState::kOpen;
  booking.version = state.sequence;
  state.index.calendar->opened(booking, event.window);
  state.index.capacity->refresh_holds(state, booking);
}

void apply(State& state, const Envelope& envelope, const WindowShort& event) {
  Booking& booking = state.bookings.at(event.id);
  BookedWindow& window = booking.windows[event.window];
  window.missed_milli_seconds = window.missed_until(envelope.at);
  window.missing_milli = event.missing_milli;
  window.missing_since = envelope.at;
  booking.version = state.sequence;
}

void apply(State& state, const Envelope& envelope, const WindowClosed& event) {
  Booking& booking = state.bookings.at(event.id);
  BookedWindow& window = booking.windows[event.window];
  tally(state, {window}, envelope.at);
  window.missed_milli_seconds = window.missed_until(envelope.at);
  window.missing_milli = 0;
  state.index.calendar->remove(booking, event.window);
  booking.windows[event.window].state = WindowState::kClosed;
  booking.version = state.sequence;
  state.index.capacity->refresh_holds(state, booking);
  const bool over = std::all_of(booking.windows.begin(), booking.windows.end(), [](const BookedWindow& one) {
    return one.state == WindowState::kClosed;
  });
  if (over && booking.state == BookingState::kBooked) booking.state = BookingState::kOver;
  state.index.capacity->changed();
}

void apply(State& state, const Envelope& envelope, const WindowMoved& event) {
  Booking& booking = state.bookings.at(event.id);
  tally(state, {booking.windows[event.window], {.places = event.places}}, envelope.at);
  state.index.calendar->remove(booking, event.window);
  const std::vector<BookedPlace> before = std::exchange(booking.windows[event.window].places, event.places);
  booking.version = state.sequence;
  state.index.calendar->add(state, booking, event.window);
  for (const BookedPlace& place : before)
    for (const Slice& slice : place.slices) state.index.capacity->refresh_holds(state, slice.device);
  state.index.capacity->refresh_holds(state, booking);
}

void apply(State& state, const Envelope& envelope, const WindowsChanged& event) {
  Booking& booking = state.bookings.at(event.id);
  tally(state, booking.windows, envelope.at);
  forget(state, booking);
  const std::vector<BookedWindow> before = std::exchange(booking.windows, event.windows);
  booking.version = state.sequence;
  for (std::uint32_t window = 0; window < booking.windows.size(); ++window)
    state.index.calendar->add(state, booking, window);
  for (const BookedWindow& window : before)
    for (const BookedPlace& place : window.places)
      for (const Slice& slice : place.slices) state.index.capacity->refresh_holds(state, slice.device);
}

std::vector<LeaseId> leases_in(const State& state, const Booking& booking) {
  std::set<NodeId> nodes;
  for (const BookedWindow& window : booking.windows)
    if (window.state == WindowState::kOpen)
      for (const BookedPlace& place : window.places) nodes.insert(place.node);
  std::vector<LeaseId> leases;
  for (const NodeId node : nodes)
    for (const LeaseId id : state.index.capacity->leases_on(node))
      if (state.leases.at(id).booking == booking.id) leases.push_back(id);
  return leases;
}

}  // namespace tranche::engine
