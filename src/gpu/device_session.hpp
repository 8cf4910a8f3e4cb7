// SPDX-License-Identifier: Apache-2.0
#pragma once
// An OpenCL device opened for our own work: one queue in order, our kernels built, buffers that free
// themselves. Whatever the driver refuses is a CannotRun, which is not a verdict about the hardware.
#include <atomic>
#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/opencl_api.hpp"

namespace tranche::gpu {

struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class DeviceBuffer {
 public:
  DeviceBuffer(const OpenClApi& api, cl_mem memory, std::size_t bytes)
      : api_(&api), memory_(memory), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : api_(other.api_), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (memory_ != nullptr) api_->release_buffer(memory_);
  }
  [[nodiscard]] cl_mem get() const { return memory_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const OpenClApi* api_;
  cl_mem memory_;
  std::size_t bytes_;
};

class DeviceSession {
 public:
  explicit DeviceSession(const OpenClDevice& device);
  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;
  ~DeviceSession();

  // Nothing when the device has no more; drivers often find that out at the first use, so its first bytes are
  // written.
  std::optional<DeviceBuffer> allocate(std::size_t bytes, std::size_t written);
  DeviceBuffer must_allocate(std::size_t bytes);

  // Queued, like everything below; finish() waits.
  template <class... Arguments>
  void launch(const std::string& kernel, std::size_t items, const Arguments&... arguments) {
    cl_kernel const handle = find_kernel(kernel);
    cl_uint index = 0;
    (set_argument(handle, index++, arguments), ...);
    start(handle, items);
  }
  void write(const DeviceBuffer& to, const void* from, std::size_t bytes);
  void read(const DeviceBuffer& from, void* to, std::size_t bytes);
  void copy(const DeviceBuffer& from, const DeviceBuffer& to, std::size_t bytes);
  void fill(const DeviceBuffer& buffer, unsigned char value);
  void finish();
  // When it becomes true, the next wait or allocation throws CannotRun: a wipe may take minutes.
  void stop_when(const std::atomic<bool>& asked) { stop_ = &asked; }

  // Work-items with which our kernels, which all loop, fill the device.
  [[nodiscard]] std::size_t items_to_fill() const { return items_; }
  [[nodiscard]] std::size_t largest_buffer() const { return largest_; }
  [[nodiscard]] const OpenClDevice& device() const { return device_; }

 private:
  void build();
  cl_kernel find_kernel(const std::string& name);
  void start(cl_kernel kernel, std::size_t items);
  void check(cl_int status, const char* what) const;
  void go_on() const;
  void release();
  void set_argument(cl_kernel kernel, cl_uint index, const DeviceBuffer& buffer) {
    cl_mem memory = buffer.get();
    check(api_.set_argument(kernel, index, sizeof memory, &memory), "set an argument");
  }
  template <class Value>
  void set_argument(cl_kernel kernel, cl_uint index, const Value& value) {
    check(api_.set_argument(kernel, index, sizeof value, &value), "set an argument");
  }

  const OpenClApi& api_;
  OpenClDevice device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  std::map<std::string, cl_kernel> kernels_{};
  std::size_t items_ = 1;
  std::size_t largest_ = 0;
  const std::atomic<bool>* stop_ = nullptr;
};

// Buffers over as much of the device as can be had, up to `budget` bytes (zero: all).
std::vector<DeviceBuffer> take_free_memory(DeviceSession& session, std::int64_t budget);

}  // namespace tranche::gpu
