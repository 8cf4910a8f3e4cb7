// SPDX-License-Identifier: Apache-2.0
#include "engine/record.hpp"

#include <boost/mp11/algorithm.hpp>

#include "wire/codec_impl.hpp"

namespace tranche::engine {
namespace {

// A record is: the envelope, the command's name, the count of events, then each event's number and fields.
using EventTypes = boost::mp11::mp_rename<EventVariant, boost::mp11::mp_list>;

Result<Event, std::string> decode_event(std::uint16_t number, wire::detail::RecordReader& reader) {
  Result<Event, std::string> result =
      refuse("event number " + std::to_string(number) + " is not known to this version");
  boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, EventTypes>>(
      [&](auto identity) {
        using Type = typename decltype(identity)::type;
        static_assert(kEventNumber<Type> != 0, "every event has a number of its own");
        if (kEventNumber<Type> != number) return;
        Type value{};
        if (wire::detail::read_record(reader, value)) {
          result = Event{std::move(value)};
        } else {
          result = refuse(std::string(reader.reason()));
        }
      });
  return result;
}

template <class E>
E without_secrets(E event) {
  if constexpr (requires { event.password_hash; }) event.password_hash.clear();
  if constexpr (requires { event.hash; }) event.hash = {};
  return event;
}

}  // namespace

std::string encode_record(const Envelope& envelope, std::string_view command, const Events& events) {
  std::string out;
  out.reserve(512);
  wire::detail::write_record(out, envelope);
  wire::detail::write_varint(out, command.size());
  out += command;
  wire::detail::write_varint(out, events.size());
  for (const Event& event : events) {
    std::visit(
        [&](const auto& value) {
          wire::detail::write_varint(out, kEventNumber<std::decay_t<decltype(value)>>);
          wire::detail::write_record(out, value);
        },
        event);
  }
  return out;
}

Result<Record, std::string> decode_record(std::string_view bytes) {
  wire::detail::RecordReader reader(bytes);
  Record record;
  std::uint64_t count = 0;
  if (!wire::detail::read_record(reader, record.envelope) ||
      !wire::detail::read_record(reader, record.command) || !wire::detail::read_record(reader, count)) {
    return refuse(std::string(reader.reason()));
  }
  if (count > reader.left()) return refuse(std::string("more events than bytes"));
  record.events.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint16_t number = 0;
    if (!wire::detail::read_record(reader, number)) return refuse(std::string(reader.reason()));
    auto event = decode_event(number, reader);
    if (!event) return refuse(event.error());
    record.events.push_back(std::move(*event));
  }
  if (reader.left() > 0) return refuse(std::string("there are bytes after the end of the record"));
  return record;
}

std::string event_name(const Event& event) {
  return std::visit(
      [](const auto& value) {
        return std::string(
            wire::detail::enum_name(wire::detail::plain_type_name<std::decay_t<decltype(value)>>()).view());
      },
      event);
}

PartyId party_concerned(const Event& event) {
  return std::visit(
      [](const auto& value) -> PartyId {
        if constexpr (requires { value.about; }) {
          return value.about;
        } else if constexpr (requires { value.owner; }) {
          return value.owner;
        } else if constexpr (requires { value.party; }) {
          return value.party;
        } else if constexpr (requires { value.user; }) {
          return value.user;
        } else if constexpr (requires { value.at; }) {
          return value.at;
        } else if constexpr (requires { value.parent; }) {
          return value.parent;
        } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, PartyChanged>) {
          return value.id;
        } else {
          return kPlatform;
        }
      },
      event);
}

std::string event_json(const Event& event) {
  return std::visit(
      [](const auto& value) {
        std::string out;
        wire::detail::write_json(out, without_secrets(value));
        return out;
      },
      event);
}

}  // namespace tranche::engine
