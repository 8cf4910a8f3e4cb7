// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_pages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <doctest/doctest.h>
#include <sys/mman.h>

namespace tranche::gpu {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

bool is_mapped(const void* at) {
  unsigned char resident = 0;
  return ::mincore(const_cast<void*>(at), 1, &resident) == 0 || errno != ENOMEM;
}

TEST_CASE("host pages: begin where a large page can, hold all that was asked for, and are given back") {
  const std::size_t bytes = 2 * kLargePage + 4096;
  const void* at = nullptr;
  {
    HostPages pages = HostPages::take(bytes);
    at = pages.data();
    REQUIRE(at != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(at) % kLargePage == 0);
    auto* const first = static_cast<unsigned char*>(pages.data());
    CHECK(std::all_of(first, first + bytes, [](unsigned char one) { return one == 0; }));
    std::fill(first, first + bytes, std::uint8_t{0xA5});
    const HostPages moved = std::move(pages);
    CHECK(moved.data() == at);
    CHECK(std::count(first, first + bytes, std::uint8_t{0xA5}) == static_cast<std::ptrdiff_t>(bytes));
  }
  CHECK(!is_mapped(at));
}

TEST_CASE("host pages: less than a large page is not worth it") {
  CHECK(HostPages::take(4096).data() == nullptr);
  CHECK(HostPages::take(0).data() == nullptr);
}

}  // namespace
}  // namespace tranche::gpu
