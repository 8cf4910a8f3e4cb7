// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_pages.hpp"

#include <cstdint>
#include <sys/mman.h>

namespace tranche::gpu {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t up_to_large_page(std::size_t bytes) {
  return (bytes + kLargePage - 1) / kLargePage * kLargePage;
}

}  // namespace

HostPages HostPages::take(std::size_t bytes) {
  HostPages out;
  if (bytes < kLargePage) return out;
  const std::size_t whole = up_to_large_page(bytes);
  const std::size_t reserved = whole + kLargePage;
  void* const at = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return out;
  // Only what begins at a multiple of a large page can be one.
  auto* const first = static_cast<unsigned char*>(at);
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t before = up_to_large_page(address) - address;
  const std::size_t behind = reserved - before - whole;
  if (before > 0) ::munmap(first, before);
  if (behind > 0) ::munmap(first + before + whole, behind);
  out.data_ = first + before;
  out.bytes_ = whole;
  ::madvise(out.data_, out.bytes_, MADV_HUGEPAGE);  // Where there are none, small ones do as well.
  return out;
}

HostPages::~HostPages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace tranche::gpu
