// SPDX-License-Identifier: Apache-2.0
#pragma once
// Many of a kind in a snapshot: how many there are, then each with its own key inside. Only for the files
// that write and read snapshots: it brings the whole codec.
#include <cstdint>
#include <string>
#include <utility>

#include "wire/codec_impl.hpp"

namespace tranche::engine {

template <class Map>
void write_values(std::string& out, const Map& map) {
  wire::detail::write_varint(out, map.size());
  for (const auto& [key, value] : map) wire::detail::write_record(out, value);
}

template <class Value, class Keep>
bool read_each(wire::detail::RecordReader& reader, Keep keep) {
  std::uint64_t count = 0;
  if (!wire::detail::read_record(reader, count)) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    Value value{};
    if (!wire::detail::read_record(reader, value)) return false;
    keep(std::move(value));
  }
  return true;
}

// They were written in order, so each goes to the end.
template <class Map, class KeyOf>
bool read_values(wire::detail::RecordReader& reader, Map& map, KeyOf key_of) {
  return read_each<typename Map::mapped_type>(reader, [&](typename Map::mapped_type value) {
    const auto key = key_of(value);
    map.emplace_hint(map.end(), key, std::move(value));
  });
}

}  // namespace tranche::engine
