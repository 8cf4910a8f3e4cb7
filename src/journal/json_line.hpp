// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reading the JSON lines that the journal itself writes.
#include <array>
#include <charconv>
#include <string_view>

#include "journal/chain.hpp"

namespace tranche::journal {

// Our own lines have one spelling only, so reading is taking the expected text off the front.
inline bool take(std::string_view& line, std::string_view expected) {
  if (!line.starts_with(expected)) return false;
  line.remove_prefix(expected.size());
  return true;
}

template <class Integer>
bool take_number(std::string_view& line, Integer& number) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc{}) return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return true;
}

template <std::size_t N>
bool take_hex(std::string_view& line, std::array<unsigned char, N>& bytes) {
  if (line.size() < 2 * N || !from_hex(line.substr(0, 2 * N), bytes)) return false;
  line.remove_prefix(2 * N);
  return true;
}

}  // namespace tranche::journal
