// SPDX-License-Identifier: Apache-2.0
#include "api/booking_views.hpp"

#include <libical/ical.h>
#include <memory>

#include "api/zones.hpp"
#include "base/text.hpp"
#include "engine/maintenance.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

// "2026-11-20T14:00:00+01:00"
std::string local_text(const Zone& zone, Instant at) {
  const std::chrono::seconds offset = zone.offset(at);
  std::string out = text(at + offset);
  out.pop_back();
  const auto pair = [](std::int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  const std::int64_t minutes = std::abs(offset.count()) / 60;
  return out + (offset.count() < 0 ? '-' : '+') + pair(minutes / 60) + ':' + pair(minutes % 60);
}

icaltimetype ical_time(Instant at) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  return icaltime_from_timet_with_zone(seconds, 0, icaltimezone_get_utc_timezone());
}

icalcomponent* event_of(const wire::BookingView& booking, const wire::WindowView& window) {
  const std::string uid = text(booking.id) + '-' + text(window.from) + "@tranche";
  const std::string summary =
      (booking.name.empty() ? booking.gpus : booking.name) + (booking.simulated ? " (SIMULATED)" : "");
  std::string about = text(booking.id) + " of " + booking.owner;
  if (!booking.gpus.empty()) about += ": " + booking.gpus;
  for (const wire::BookedDevice& device : window.devices)
    about += "\n" + text(device.device) + " on " + device.node;
  icalcomponent* event = icalcomponent_new(ICAL_VEVENT_COMPONENT);
  icalcomponent_add_property(event, icalproperty_new_uid(uid.c_str()));
  icalcomponent_add_property(event, icalproperty_new_dtstamp(ical_time(booking.made)));
  icalcomponent_add_property(event, icalproperty_new_dtstart(ical_time(window.from)));
  icalcomponent_add_property(event, icalproperty_new_dtend(ical_time(window.to)));
  icalcomponent_add_property(event, icalproperty_new_summary(summary.c_str()));
  icalcomponent_add_property(event, icalproperty_new_description(about.c_str()));
  icalcomponent_add_property(
      event,
      icalproperty_new_status(booking.state == wire::BookingState::kCancelled ? ICAL_STATUS_CANCELLED
                                                                              : ICAL_STATUS_CONFIRMED));
  return event;
}

}  // namespace

wire::BookingView booking_view(const engine::State& state, const engine::Booking& booking) {
  wire::BookingView view{.id = booking.id,
                         .kind = booking.kind,
                         .name = booking.name,
                         .owner_id = booking.owner,
                         .owner = engine::path_of(state, booking.owner),
                         .state = booking.state,
                         .gpus = booking.ask.gpus,
                         .gpu_milli = booking.ask.gpu_milli(),
                         .simulated = booking.ask.simulated,
                         .zone = booking.zone,
                         .recurrence = booking.recurrence,
                         .environment = booking.environment,
                         .made = booking.made};
  if (booking.contract != engine::ContractId{}) view.contract = id_text("ctr_", booking.contract.value);
  const auto zone = Zone::find(booking.zone);
  for (const engine::BookedWindow& booked : booking.windows) {
    wire::WindowView window{.from = booked.from, .to = booked.to, .state = booked.state};
    const auto for_people = [&](Instant at) {
      const Instant second(std::chrono::floor<std::chrono::seconds>(at));
      return zone ? local_text(*zone, second) : text(second);
    };
    window.from_local = for_people(booked.from);
    window.to_local = for_people(booked.to);
    if (booking.kind == wire::ClaimKind::kMaintenance)
      window.tests_local = for_people(engine::work_ends(booking, booked));
    for (const engine::BookedPlace& place : booked.places)
      for (const engine::Slice& slice : place.slices)
        window.devices.push_back({slice.device, state.nodes.at(place.node).name, slice.milli, slice.vram});
    view.windows.push_back(std::move(window));
  }
  return view;
}

std::string calendar_text(const std::vector<wire::BookingView>& bookings) {
  const std::unique_ptr<icalcomponent, void (*)(icalcomponent*)> calendar(icalcomponent_new_vcalendar(),
                                                                          icalcomponent_free);
  icalcomponent_add_property(calendar.get(), icalproperty_new_version("2.0"));
  icalcomponent_add_property(calendar.get(), icalproperty_new_prodid("-//Tranche//bookings//EN"));
  for (const wire::BookingView& booking : bookings)
    for (const wire::WindowView& window : booking.windows)
      icalcomponent_add_component(calendar.get(), event_of(booking, window));
  const std::unique_ptr<char, void (*)(void*)> out(icalcomponent_as_ical_string_r(calendar.get()),
                                                   icalmemory_free_buffer);
  return out.get();
}

}  // namespace tranche::api
