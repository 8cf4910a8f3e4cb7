// SPDX-License-Identifier: Apache-2.0
#include "engine/event.hpp"

namespace tranche::engine {

#define TRANCHE_DEFINE_SPECIAL_MEMBERS(Self)        \
  Self::Self() = default;                           \
  Self::Self(const Self&) = default;                \
  Self::Self(Self&&) noexcept = default;            \
  Self& Self::operator=(const Self&) = default;     \
  Self& Self::operator=(Self&&) noexcept = default; \
  Self::~Self() = default;
TRANCHE_DEFINE_SPECIAL_MEMBERS(Command)
TRANCHE_DEFINE_SPECIAL_MEMBERS(Event)

#define TRANCHE_MAKE_COMMAND(Type, name)                                                         \
  Command::Command(Type&& value) : CommandVariant(std::in_place_type<Type>, std::move(value)) {} \
  Command::Command(const Type& value) : CommandVariant(std::in_place_type<Type>, value) {}
TRANCHE_COMMANDS(TRANCHE_MAKE_COMMAND)

#define TRANCHE_MAKE_EVENT(Type, number)                                                   \
  Event::Event(Type&& value) : EventVariant(std::in_place_type<Type>, std::move(value)) {} \
  Event::Event(const Type& value) : EventVariant(std::in_place_type<Type>, value) {}
TRANCHE_EVENTS(TRANCHE_MAKE_EVENT)

std::string_view command_name(const Command& command) {
#define TRANCHE_COMMAND_NAME(Type, name) std::string_view(name),
  static constexpr std::string_view kNames[] = {TRANCHE_COMMANDS(TRANCHE_COMMAND_NAME)};
  return kNames[command.index()];
}

}  // namespace tranche::engine
