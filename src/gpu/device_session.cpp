// SPDX-License-Identifier: Apache-2.0
#include "gpu/device_session.hpp"

#include <algorithm>
#include <fstream>
#include <memory>

#include "gpu/device_test_kernels.hpp"
#include "gpu/host_pages.hpp"

namespace tranche::gpu {
namespace {

constexpr std::size_t kChunk = std::size_t{256} << 20;
constexpr std::size_t kUnit = 64;  // Our kernels work on 64 bytes at a time.

const OpenClApi& need_opencl() {
  const OpenClApi* const api = opencl();
  if (api == nullptr) throw CannotRun("there is no OpenCL on this machine");
  return *api;
}

// The memory of a CPU device is the machine's: what others need must stay.
std::int64_t host_memory_to_spare() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kibibytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024 / 4 * 3;
  }
  return 0;
}

void CL_CALLBACK give_back(cl_mem, void* pages) {
  const std::unique_ptr<HostPages> gone(static_cast<HostPages*>(pages));
}

}  // namespace

DeviceSession::DeviceSession(const OpenClDevice& device) : api_(need_opencl()), device_(device) {
  cl_int status = CL_SUCCESS;
  try {
    context_ = api_.create_context(nullptr, 1, &device_.device, nullptr, nullptr, &status);
    check(status, "open a context");
    queue_ = api_.create_queue(context_, device_.device, 0, &status);
    check(status, "open a queue");
    build();
  } catch (...) {
    release();
    throw;
  }
  cl_ulong most = 0;
  api_.device_info(device_.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, nullptr);
  largest_ = static_cast<std::size_t>(most);
  const auto units = static_cast<std::size_t>(std::max(device_.facts.multiprocessors, 1));
  items_ = units * (device_.is_cpu ? 8 : 2048);
}

void DeviceSession::release() {
  for (const auto& [name, kernel] : kernels_) api_.release_kernel(kernel);
  if (program_ != nullptr) api_.release_program(program_);
  if (queue_ != nullptr) api_.release_queue(queue_);
  if (context_ != nullptr) api_.release_context(context_);
}

DeviceSession::~DeviceSession() {
  if (queue_ != nullptr) api_.finish(queue_);
  release();
}

void DeviceSession::build() {
  const char* source = device_kernels();
  cl_int status = CL_SUCCESS;
  program_ = api_.create_program(context_, 1, &source, nullptr, &status);
  check(status, "read our kernels");
  const char* const options = device_.is_cpu ? "-DTRANCHE_BLOCKED" : "";
  if (api_.build_program(program_, 1, &device_.device, options, nullptr, nullptr) == CL_SUCCESS) return;
  char log[1024] = {};
  api_.build_info(program_, device_.device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, nullptr);
  throw CannotRun(std::string("the driver cannot build our kernels: ") + log);
}

cl_kernel DeviceSession::find_kernel(const std::string& name) {
  if (const auto at = kernels_.find(name); at != kernels_.end()) return at->second;
  cl_int status = CL_SUCCESS;
  cl_kernel const kernel = api_.create_kernel(program_, name.c_str(), &status);
  check(status, "find a kernel");
  return kernels_[name] = kernel;
}

void DeviceSession::start(cl_kernel kernel, std::size_t items) {
  // One item a group on CPUs: each walks a block of its own, and groups are what spreads over cores.
  const std::size_t one = 1;
  check(api_.launch(queue_, kernel, 1, nullptr, &items, device_.is_cpu ? &one : nullptr, 0, nullptr, nullptr),
        "launch a kernel");
}

std::optional<DeviceBuffer> DeviceSession::allocate(std::size_t bytes, std::size_t written) {
  go_on();
  cl_int status = CL_SUCCESS;
  auto pages = std::make_unique<HostPages>(device_.is_cpu ? HostPages::take(bytes) : HostPages{});
  const bool has_pages = pages->data() != nullptr;
  const cl_mem_flags flags = has_pages ? CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR : CL_MEM_READ_WRITE;
  cl_mem const memory = api_.create_buffer(context_, flags, bytes, pages->data(), &status);
  if (status != CL_SUCCESS || memory == nullptr) return std::nullopt;
  DeviceBuffer buffer(api_, memory, bytes);
  if (has_pages) {
    if (api_.when_buffer_gone(memory, &give_back, pages.get()) != CL_SUCCESS) return std::nullopt;
    static_cast<void>(pages.release());  // The driver's, until nothing that was queued uses them any more.
  }
  // Drivers give memory when it is written first. Those for CPUs write pattern by pattern: a wide one is
  // faster.
  const unsigned char zeros[kUnit] = {};
  const std::size_t pattern = written % kUnit == 0 ? kUnit : 1;
  const bool used =
      api_.fill_buffer(queue_, memory, zeros, pattern, 0, written, 0, nullptr, nullptr) == CL_SUCCESS &&
      api_.finish(queue_) == CL_SUCCESS;
  if (!used) return std::nullopt;
  return buffer;
}

DeviceBuffer DeviceSession::must_allocate(std::size_t bytes) {
  auto buffer = allocate(bytes, bytes);
  if (!buffer) throw CannotRun("the device has no " + std::to_string(bytes) + " bytes free for the test");
  return std::move(*buffer);
}

void DeviceSession::write(const DeviceBuffer& to, const void* from, std::size_t bytes) {
  check(api_.write_buffer(queue_, to.get(), CL_TRUE, 0, bytes, from, 0, nullptr, nullptr), "write");
}
void DeviceSession::read(const DeviceBuffer& from, void* to, std::size_t bytes) {
  check(api_.read_buffer(queue_, from.get(), CL_TRUE, 0, bytes, to, 0, nullptr, nullptr), "read");
}
void DeviceSession::copy(const DeviceBuffer& from, const DeviceBuffer& to, std::size_t bytes) {
  check(api_.copy_buffer(queue_, from.get(), to.get(), 0, 0, bytes, 0, nullptr, nullptr), "copy");
}
void DeviceSession::fill(const DeviceBuffer& buffer, unsigned char value) {
  check(api_.fill_buffer(queue_, buffer.get(), &value, 1, 0, buffer.bytes(), 0, nullptr, nullptr), "fill");
}
void DeviceSession::go_on() const {
  if (stop_ != nullptr && stop_->load()) throw CannotRun("ended before it was done");
}

void DeviceSession::finish() {
  go_on();
  check(api_.finish(queue_), "finish its work");
}

void DeviceSession::check(cl_int status, const char* what) const {
  if (status == CL_SUCCESS) return;
  throw CannotRun(std::string("the driver did not ") + what + ": OpenCL error " + std::to_string(status));
}

std::vector<DeviceBuffer> take_free_memory(DeviceSession& session, std::int64_t budget) {
  std::int64_t left = budget > 0 ? budget : session.device().facts.vram.count;
  if (session.device().is_cpu) left = std::min(left, host_memory_to_spare());
  std::vector<DeviceBuffer> out;
  std::size_t chunk = std::min(kChunk, std::max(session.largest_buffer(), kUnit));
  while (left >= static_cast<std::int64_t>(kUnit)) {
    const std::size_t bytes = std::min(chunk, static_cast<std::size_t>(left)) / kUnit * kUnit;
    // Whole buffers are given at once: what is wiped or tested next is not written twice.
    if (auto buffer = session.allocate(bytes, kUnit)) {
      out.push_back(std::move(*buffer));
      left -= static_cast<std::int64_t>(bytes);
    } else if (bytes > (std::size_t{1} << 20)) {
      chunk = bytes / 2;  // What is left is smaller, or in pieces.
    } else {
      break;
    }
  }
  return out;
}

}  // namespace tranche::gpu
