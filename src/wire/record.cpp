// SPDX-License-Identifier: Apache-2.0
#include "wire/record.hpp"

namespace tranche::wire::detail {

bool RecordReader::long_varint(std::uint64_t& out) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) return fail("the record is cut short");
    const auto byte = static_cast<std::uint8_t>(*at_++);
    const std::uint64_t bits = byte & 0x7FU;
    if (shift == 63 && bits > 1) return fail("a number has more than 64 bits");
    value |= bits << shift;
    if (byte >= 0x80) continue;
    // One encoding a number: 0x80 0x00 would be a second zero.
    if (byte == 0 && shift > 0) return fail("a number is written longer than it is");
    out = value;
    return true;
  }
  return fail("a number has more than 64 bits");
}

bool read_record_text_map(RecordReader& reader, TextMap& out) {
  std::uint64_t count = 0;
  if (!reader.count(count)) return false;
  out = {};
  std::string last;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name;
    std::string text;
    if (!reader.text(name) || !reader.text(text)) return false;
    if (i > 0 && name <= last) return reader.fail("the keys of a map are out of order");
    last = name;
    out.add(std::move(name), std::move(text));
  }
  return true;
}

}  // namespace tranche::wire::detail
