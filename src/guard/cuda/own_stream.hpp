// SPDX-License-Identifier: Apache-2.0
#pragma once
// A stream of the guard's own, which waits for no other and breaks no capture.
#include <type_traits>

#include "guard/cuda/real_driver.hpp"

namespace tranche::guard::cuda {

class OwnStream {
 public:
  OwnStream() {
    auto* create = DRIVER(cuStreamCreate, Result(Stream*, unsigned));
    if (create == nullptr || create(&stream_, kStreamNonBlocking) != kSuccess) stream_ = nullptr;
  }
  ~OwnStream() {
    auto* destroy = DRIVER(cuStreamDestroy_v2, Result(Stream));
    if (stream_ != nullptr && destroy != nullptr) destroy(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  [[nodiscard]] Stream handle() const { return stream_; }
  // Done when it returns. What it waits for is the zeroing alone.
  [[nodiscard]] bool zero(Pointer pointer, std::uint64_t bytes) const {
    auto* set = DRIVER(cuMemsetD8Async, Result(Pointer, unsigned char, std::size_t, Stream));
    auto* finish = DRIVER(cuStreamSynchronize, Result(Stream));
    return stream_ != nullptr && set != nullptr && finish != nullptr &&
           set(pointer, 0, bytes, stream_) == kSuccess && finish(stream_) == kSuccess;
  }

 private:
  Stream stream_ = nullptr;
};

}  // namespace tranche::guard::cuda
