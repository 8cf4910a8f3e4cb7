// SPDX-License-Identifier: Apache-2.0
// Images for a device, and what they are packed with: any bytes are read within their bounds, and nothing is
// written outside the room that was given.
#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "guard/image_sizes.hpp"
#include "guard/lz4_block.hpp"
#include "guard/zstd_frame.hpp"
#include "target.hpp"

namespace tranche::fuzz {
namespace {

constexpr std::size_t kFatHeaderBytes = 16;  // Whoever calls has seen that much.
constexpr unsigned char kUntouched = 0xa5;

template <class Unpack>
void unpack_within(Unpack unpack, const std::vector<unsigned char>& packed, std::size_t room) {
  std::vector<unsigned char> out(room + 1, kUntouched);
  const std::uint64_t written = unpack(packed.data(), packed.size(), out.data(), room);
  TRANCHE_CHECK(written <= room && out[room] == kUntouched);
  std::vector<unsigned char> again(room + 1, 0);  // What was there before tells nothing.
  TRANCHE_CHECK(unpack(packed.data(), packed.size(), again.data(), room) == written);
  TRANCHE_CHECK(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(written), again.begin()));
}

}  // namespace

void fuzz_image(std::string_view input) {
  std::vector<unsigned char> exact(input.begin(), input.end());  // Its own memory: reading on would be seen.
  exact.shrink_to_fit();
  for (const std::size_t room : {std::size_t{0}, input.size() / 2, std::size_t{5000}}) {
    unpack_within(guard::unpack_lz4, exact, room);
    unpack_within(guard::unpack_zstd, exact, room);
  }
  guard::size_in_elf(exact.data(), exact.size());
  guard::size_in_text(reinterpret_cast<const char*>(exact.data()), exact.size());
  if (exact.size() >= kFatHeaderBytes) guard::size_in_fat_binary(exact.data(), exact.size());
}

}  // namespace tranche::fuzz

TRANCHE_FUZZ_ENTRY(fuzz_image);
