// SPDX-License-Identifier: Apache-2.0
#include "guard/lz4_block.hpp"

#include <cstring>

namespace tranche::guard {
namespace {

constexpr unsigned kMore = 15;  // A length that goes on in the bytes that follow.
constexpr std::uint64_t kMatchLeast = 4;

class Reader {
 public:
  Reader(const unsigned char* from, std::uint64_t length) : next_(from), end_(from + length) {}

  [[nodiscard]] std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - next_); }
  bool byte(unsigned& value) {
    if (next_ == end_) return false;
    value = *next_++;
    return true;
  }
  bool length(std::uint64_t& value) {
    unsigned more = 255;
    if (value != kMore) return true;
    while (more == 255) {
      if (!byte(more)) return false;
      value += more;
    }
    return true;
  }
  const unsigned char* take(std::uint64_t bytes) {
    const unsigned char* at = next_;
    next_ += bytes;
    return at;
  }

 private:
  const unsigned char* next_;
  const unsigned char* end_;
};

}  // namespace

std::uint64_t unpack_lz4(const unsigned char* from,
                         std::uint64_t length,
                         unsigned char* to,
                         std::uint64_t room) {
  Reader in(from, length);
  std::uint64_t written = 0;
  for (unsigned token = 0; in.byte(token);) {
    std::uint64_t literals = token >> 4;
    if (!in.length(literals) || literals > in.left() || literals > room - written) return 0;
    std::memcpy(to + written, in.take(literals), literals);
    written += literals;
    if (in.left() == 0) return written;  // The last sequence has no match.
    unsigned low = 0;
    unsigned high = 0;
    std::uint64_t match = token & kMore;
    if (!in.byte(low) || !in.byte(high) || !in.length(match)) return 0;
    const std::uint64_t back = low + 256 * high;
    match += kMatchLeast;
    if (back == 0 || back > written || match > room - written) return 0;
    for (; match > 0; --match, ++written) to[written] = to[written - back];  // May overlap, and repeats then.
  }
  return 0;
}

}  // namespace tranche::guard
