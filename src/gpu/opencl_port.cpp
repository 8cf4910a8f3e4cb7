// SPDX-License-Identifier: Apache-2.0
// Any device with an OpenCL driver. The only real one on machines without a GPU is the CPU itself (PoCL).
#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include "gpu/device_identity.hpp"
#include "gpu/opencl_api.hpp"
#include "gpu/shared_library.hpp"
#include "gpu/topology.hpp"
#include "gpu/unpartitioned_port.hpp"
#include "gpu/vendor_ports.hpp"

namespace tranche::gpu {
namespace {

constexpr cl_device_info kDeviceUuid = 0x106A;  // cl_khr_device_uuid
constexpr cl_device_info kPciBusInfo = 0x410F;  // cl_khr_pci_bus_info
constexpr cl_uint kVendorNvidia = 0x10de, kVendorAmd = 0x1002, kVendorIntel = 0x8086;
constexpr std::uint32_t kDevicesMax = 64;

OpenClApi load(const SharedLibrary& library) {
  OpenClApi api;
  library.bind(api.platforms, "clGetPlatformIDs");
  library.bind(api.platform_info, "clGetPlatformInfo");
  library.bind(api.devices, "clGetDeviceIDs");
  library.bind(api.device_info, "clGetDeviceInfo");
  library.bind(api.create_context, "clCreateContext");
  library.bind(api.release_context, "clReleaseContext");
  library.bind(api.create_queue, "clCreateCommandQueue");
  library.bind(api.release_queue, "clReleaseCommandQueue");
  library.bind(api.create_program, "clCreateProgramWithSource");
  library.bind(api.build_program, "clBuildProgram");
  library.bind(api.build_info, "clGetProgramBuildInfo");
  library.bind(api.release_program, "clReleaseProgram");
  library.bind(api.create_kernel, "clCreateKernel");
  library.bind(api.set_argument, "clSetKernelArg");
  library.bind(api.release_kernel, "clReleaseKernel");
  library.bind(api.create_buffer, "clCreateBuffer");
  library.bind(api.release_buffer, "clReleaseMemObject");
  library.bind(api.when_buffer_gone, "clSetMemObjectDestructorCallback");
  library.bind(api.launch, "clEnqueueNDRangeKernel");
  library.bind(api.read_buffer, "clEnqueueReadBuffer");
  library.bind(api.write_buffer, "clEnqueueWriteBuffer");
  library.bind(api.copy_buffer, "clEnqueueCopyBuffer");
  library.bind(api.fill_buffer, "clEnqueueFillBuffer");
  library.bind(api.finish, "clFinish");
  return api;
}

std::string text_info(const OpenClApi& api, cl_device_id device, cl_device_info what) {
  char text[1024] = {};
  std::size_t size = 0;
  if (api.device_info(device, what, sizeof text - 1, text, &size) != CL_SUCCESS) return {};
  return text;
}

template <class T>
T number_info(const OpenClApi& api, cl_device_id device, cl_device_info what) {
  T value{};
  return api.device_info(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

wire::GpuVendor vendor_of(cl_uint id, bool is_cpu) {
  if (is_cpu) return wire::GpuVendor::kAny;  // PoCL gives its CPU the number of a vendor of GPUs.
  if (id == kVendorNvidia) return wire::GpuVendor::kNvidia;
  if (id == kVendorAmd) return wire::GpuVendor::kAmd;
  return id == kVendorIntel ? wire::GpuVendor::kIntel : wire::GpuVendor::kAny;
}

std::string pci_of(const OpenClApi& api, cl_device_id device) {
  std::array<cl_uint, 4> place{};
  if (api.device_info(device, kPciBusInfo, sizeof place, place.data(), nullptr) != CL_SUCCESS) return {};
  return pci_address_text(place[0], place[1], place[2], place[3]);
}

// The driver's own identifier where it has one; else the same for the same place on the same machine.
std::string identity_of(const OpenClApi& api, const OpenClDevice& device, std::uint32_t index) {
  std::array<std::uint8_t, 16> bytes{};
  const bool own =
      !device.is_cpu &&
      api.device_info(device.device, kDeviceUuid, sizeof bytes, bytes.data(), nullptr) == CL_SUCCESS;
  if (own) return "GPU-" + uuid_text(bytes);
  return "OCL-" + uuid_from(machine_identity() + "|" + device.facts.name + "|" + device.facts.pci_address +
                            "|" + std::to_string(index));
}

OpenClDevice describe(const OpenClApi& api, cl_platform_id platform, cl_device_id id, std::uint32_t index) {
  OpenClDevice out{.platform = platform, .device = id};
  out.is_cpu = (number_info<cl_device_type>(api, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  wire::DeviceFacts& facts = out.facts;
  facts.name = text_info(api, id, CL_DEVICE_NAME);
  facts.vendor = vendor_of(number_info<cl_uint>(api, id, CL_DEVICE_VENDOR_ID), out.is_cpu);
  facts.vram = {static_cast<std::int64_t>(number_info<cl_ulong>(api, id, CL_DEVICE_GLOBAL_MEM_SIZE))};
  facts.multiprocessors =
      static_cast<std::int32_t>(number_info<cl_uint>(api, id, CL_DEVICE_MAX_COMPUTE_UNITS));
  facts.driver_version = text_info(api, id, CL_DRIVER_VERSION);
  facts.pci_address = out.is_cpu ? std::string() : pci_of(api, id);
  facts.uuid = identity_of(api, out, index);
  if (!out.is_cpu) describe_from_catalog(facts);
  place_in_machine(facts);
  facts.soft_capable = true;
  return out;
}

// Busy and total time of all CPUs, in ticks.
std::pair<std::uint64_t, std::uint64_t> cpu_times() {
  std::ifstream stat("/proc/stat");
  std::string word, line;
  std::getline(stat, line);
  std::istringstream fields(line);
  fields >> word;
  std::uint64_t value = 0, total = 0, idle = 0;
  for (int field = 0; fields >> value && field < 8; ++field) {
    total += value;
    if (field == 3 || field == 4) idle += value;
  }
  return {total - idle, total};
}

class OpenClPort final : public UnpartitionedPort {
 public:
  [[nodiscard]] std::string name() const override { return "opencl"; }

  [[nodiscard]] std::vector<DeviceFacts> discover() override {
    std::vector<DeviceFacts> out;
    devices_ = opencl_devices();
    for (const OpenClDevice& device : devices_) out.push_back(device.facts);
    return out;
  }

  // OpenCL has no telemetry. For a CPU the kernel's own counters are the device's.
  [[nodiscard]] std::vector<DeviceSample> sample() override {
    std::vector<DeviceSample> out;
    const auto [busy, total] = cpu_times();
    const std::uint64_t passed = total - last_total_;
    const std::uint64_t milli = passed == 0 ? 0 : (busy - last_busy_) * 1000 / passed;
    last_busy_ = busy;
    last_total_ = total;
    for (const OpenClDevice& device : devices_) {
      DeviceSample sample{.uuid = device.facts.uuid,
                          .missing = wire::kNoMemory | wire::kNoPower | wire::kNoTemperature |
                                     wire::kNoClock | wire::kNoErrors};
      if (device.is_cpu) {
        sample.busy_milli = static_cast<std::uint16_t>(milli);
      } else {
        sample.missing |= wire::kNoBusy;
      }
      out.push_back(std::move(sample));
    }
    return out;
  }

  [[nodiscard]] std::vector<std::string> files_of(const std::string& uuid) override {
    for (const OpenClDevice& device : devices_) {
      if (device.facts.uuid == uuid && !device.is_cpu)
        return those_that_exist(render_files_of(device.facts.pci_address));
    }
    return {};
  }

 private:
  std::vector<OpenClDevice> devices_{};
  std::uint64_t last_busy_ = 0;
  std::uint64_t last_total_ = 0;
};

}  // namespace

const OpenClApi* opencl() {
  static const OpenClApi api = [] {
    const SharedLibrary library = SharedLibrary::open({"libOpenCL.so.1"});
    return library ? load(library) : OpenClApi{};
  }();
  return api.platforms != nullptr && api.fill_buffer != nullptr ? &api : nullptr;
}

std::vector<OpenClDevice> opencl_devices() {
  std::vector<OpenClDevice> out;
  const OpenClApi* const api = opencl();
  if (api == nullptr) return out;
  std::array<cl_platform_id, kDevicesMax> platforms{};
  cl_uint platform_count = 0;
  if (api->platforms(kDevicesMax, platforms.data(), &platform_count) != CL_SUCCESS) return out;
  for (cl_uint p = 0; p < platform_count && p < kDevicesMax; ++p) {
    std::array<cl_device_id, kDevicesMax> devices{};
    cl_uint count = 0;
    if (api->devices(platforms[p], CL_DEVICE_TYPE_ALL, kDevicesMax, devices.data(), &count) != CL_SUCCESS)
      continue;
    for (cl_uint i = 0; i < count && i < kDevicesMax; ++i)
      out.push_back(describe(*api, platforms[p], devices[i], i));
  }
  return out;
}

std::unique_ptr<DevicePort> open_opencl() {
  if (opencl() == nullptr) return nullptr;
  auto port = std::make_unique<OpenClPort>();
  return port->discover().empty() ? nullptr : std::move(port);
}

}  // namespace tranche::gpu

#if defined(__SANITIZE_ADDRESS__)
// Drivers keep what they allocated until the process ends; that is theirs to answer for, not ours.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\n";
}
// The sanitizer guesses where thread-local memory of drivers that were loaded late begins. When such memory
// happens to start a page it guesses wrong, and the search for leaks crashes.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "intercept_tls_get_addr=0";
}
#endif
