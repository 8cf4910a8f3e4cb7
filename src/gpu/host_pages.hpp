// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of the machine in large pages, for devices whose memory that is. Whole gigabytes of it are taken for
// a wipe or a test and given back: page by small page that is most of the work, on the cores that jobs want.
#include <cstddef>
#include <utility>

namespace tranche::gpu {

class HostPages {
 public:
  HostPages() = default;
  // All zero. Nothing when it is too little to be worth it, or when there is none.
  [[nodiscard]] static HostPages take(std::size_t bytes);
  HostPages(HostPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostPages& operator=(HostPages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  ~HostPages();
  [[nodiscard]] void* data() const { return data_; }  // Null: nothing.

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tranche::gpu
