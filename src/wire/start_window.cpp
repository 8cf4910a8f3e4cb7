// SPDX-License-Identifier: Apache-2.0
#include "wire/start_window.hpp"

namespace tranche::wire {
namespace {

std::string clock_text(std::uint32_t minute) {
  const auto two = [](std::uint32_t number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  return two(minute / 60) + ':' + two(minute % 60);
}

}  // namespace

std::string text(const StartWindow& window) {
  return clock_text(window.from_minute) + '-' + clock_text(window.to_minute) + ' ' + window.zone;
}

}  // namespace tranche::wire
