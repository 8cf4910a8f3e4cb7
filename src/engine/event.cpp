// SPDX-License-Identifier: Apache-2.0
#include "engine/event.hpp"

#include <utility>

namespace tranche::engine {

// The constructors of std::variant recurse through all alternatives before the one they are for: a hundred
// alternatives are ten thousand functions for each way to construct. To emplace goes straight to the place,
// at the price of a first alternative that is made and gone again.
#define TRANCHE_DEFINE_SPECIAL_MEMBERS(Self)                                \
  Self::Self() = default;                                                   \
  Self::Self(const Self& other) : Self() {                                  \
    std::visit([this]<class T>(const T& value) { emplace<T>(value); },      \
               static_cast<const Self##Variant&>(other));                   \
  }                                                                         \
  Self::Self(Self&& other) noexcept : Self() {                              \
    std::visit([this]<class T>(T& value) { emplace<T>(std::move(value)); }, \
               static_cast<Self##Variant&>(other));                         \
  }                                                                         \
  Self& Self::operator=(const Self& other) {                                \
    if (this != &other) *this = Self(other);                                \
    return *this;                                                           \
  }                                                                         \
  Self& Self::operator=(Self&& other) noexcept {                            \
    if (this == &other) return *this;                                       \
    std::visit([this]<class T>(T& value) { emplace<T>(std::move(value)); }, \
               static_cast<Self##Variant&>(other));                         \
    return *this;                                                           \
  }                                                                         \
  Self::~Self() = default;
TRANCHE_DEFINE_SPECIAL_MEMBERS(Command)
TRANCHE_DEFINE_SPECIAL_MEMBERS(Event)

#define TRANCHE_MAKE_COMMAND(Type, name)            \
  Command::Command(Type&& value) : Command() {      \
    emplace<Type>(std::move(value));                \
  }                                                 \
  Command::Command(const Type& value) : Command() { \
    emplace<Type>(value);                           \
  }
TRANCHE_COMMANDS(TRANCHE_MAKE_COMMAND)

#define TRANCHE_MAKE_EVENT(Type, number)      \
  Event::Event(Type&& value) : Event() {      \
    emplace<Type>(std::move(value));          \
  }                                           \
  Event::Event(const Type& value) : Event() { \
    emplace<Type>(value);                     \
  }
TRANCHE_EVENTS(TRANCHE_MAKE_EVENT)

std::string_view command_name(const Command& command) {
#define TRANCHE_COMMAND_NAME(Type, name) std::string_view(name),
  static constexpr std::string_view kNames[] = {TRANCHE_COMMANDS(TRANCHE_COMMAND_NAME)};
  return kNames[command.index()];
}

}  // namespace tranche::engine
