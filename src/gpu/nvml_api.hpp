// SPDX-License-Identifier: Apache-2.0
#pragma once
// The calls of NVML that we use, with the layouts that its ABI fixes. Every call but the first few may be
// missing in an older driver.
#include <cstdint>

#include "gpu/shared_library.hpp"

namespace tranche::gpu::nvml {

using Device = void*;
using GpuInstance = void*;
using ComputeInstance = void*;
using EventSet = void*;

constexpr int kInsufficientSize = 7;
constexpr int kGpuIsLost = 15;
constexpr unsigned kNoInstance = 0xffffffff;
constexpr unsigned kClockSm = 1;
constexpr unsigned kCorrected = 0;
constexpr unsigned kUncorrected = 1;
constexpr unsigned kSinceBoot = 0;
constexpr unsigned kLinksMax = 18;  // Of NVLink.
constexpr unsigned kComputeDefault = 0;
constexpr unsigned kComputeExclusiveProcess = 3;
constexpr unsigned long long kEventDoubleBitEcc = 2;
constexpr unsigned long long kEventXid = 8;
constexpr unsigned long long kReasonHardwareSlowdown = 0x08;
constexpr unsigned long long kReasonSoftwareThermal = 0x20;
constexpr unsigned long long kReasonHardwareThermal = 0x40;
constexpr unsigned long long kReasonPowerBrake = 0x80;

struct Memory {
  unsigned long long total, free, used;
};
struct Pci {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct ProcessSample {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Attributes {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
  unsigned long long memory_mib;
};
struct Event {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
struct Placement {
  unsigned start, size;
};
struct InstanceProfile {  // Version 2, which has the name.
  unsigned version, id, peer_to_peer, slices, instances, multiprocessors, copy_engines, decoders, encoders,
      jpeg, ofa;
  unsigned long long memory_mib;
  char name[96];
};
constexpr unsigned kInstanceProfileVersion = static_cast<unsigned>(sizeof(InstanceProfile)) | (2U << 24U);
struct InstanceInfo {
  Device device;
  unsigned id, profile;
  Placement placement;
};
struct ComputeProfile {
  unsigned id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, ofa;
};

// Counters of what the multiprocessors and the memory do, between two samples; from Hopper on.
using CounterSample = void*;
constexpr unsigned kCounterSm = 2, kCounterTensor = 5, kCounterDram = 10;  // In percent.
struct Counter {
  unsigned id;
  int result;
  double value;
  const char *short_name, *long_name, *unit;
};
struct Counters {
  unsigned version, count;
  CounterSample before, after;
  Counter counters[512];  // As many as any driver has; it fills in `count`.
};
struct CounterSupport {
  unsigned version, supported;
};

struct Api {
  int (*init)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*minor_number)(Device, unsigned*) = nullptr;
  int (*pci)(Device, Pci*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;
  int (*clock)(Device, unsigned, unsigned*) = nullptr;
  int (*ecc_errors)(Device, unsigned, unsigned, unsigned long long*) = nullptr;
  int (*ecc_mode)(Device, unsigned*, unsigned*) = nullptr;
  int (*remapped_rows)(Device, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  int (*throttle_reasons)(Device, unsigned long long*) = nullptr;
  int (*link_width)(Device, unsigned*) = nullptr;
  int (*link_width_max)(Device, unsigned*) = nullptr;
  int (*link_state)(Device, unsigned, unsigned*) = nullptr;
  int (*processes)(Device, unsigned*, Process*) = nullptr;
  int (*process_utilization)(Device, ProcessSample*, unsigned*, unsigned long long) = nullptr;
  int (*total_energy)(Device, unsigned long long*) = nullptr;
  int (*counter_support)(Device, CounterSupport*) = nullptr;
  int (*counter_sample)(Device, CounterSample) = nullptr;
  int (*counter_allocate)(CounterSample*) = nullptr;
  int (*counter_free)(CounterSample) = nullptr;
  int (*counters)(Counters*) = nullptr;
  int (*event_set)(EventSet*) = nullptr;
  int (*register_events)(Device, unsigned long long, EventSet) = nullptr;
  int (*wait_event)(EventSet, Event*, unsigned) = nullptr;
  int (*set_compute_mode)(Device, unsigned) = nullptr;

  int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
  int (*set_mig_mode)(Device, unsigned, int*) = nullptr;
  int (*mig_count_max)(Device, unsigned*) = nullptr;
  int (*mig_by_index)(Device, unsigned, Device*) = nullptr;
  int (*mig_instance_id)(Device, unsigned*) = nullptr;
  int (*mig_compute_id)(Device, unsigned*) = nullptr;
  int (*attributes)(Device, Attributes*) = nullptr;
  int (*instance_profile)(Device, unsigned, InstanceProfile*) = nullptr;
  int (*possible_placements)(Device, unsigned, Placement*, unsigned*) = nullptr;
  int (*create_instance)(Device, unsigned, const Placement*, GpuInstance*) = nullptr;
  int (*instance_by_id)(Device, unsigned, GpuInstance*) = nullptr;
  int (*instance_info)(GpuInstance, InstanceInfo*) = nullptr;
  int (*destroy_instance)(GpuInstance) = nullptr;
  int (*compute_profile)(GpuInstance, unsigned, unsigned, ComputeProfile*) = nullptr;
  int (*create_compute)(GpuInstance, unsigned, ComputeInstance*) = nullptr;
  int (*compute_instances)(GpuInstance, unsigned, ComputeInstance*, unsigned*) = nullptr;
  int (*destroy_compute)(ComputeInstance) = nullptr;

  [[nodiscard]] const char* reason(int result) const {
    return error_text == nullptr ? "an error of the driver" : error_text(result);
  }
};

Api load(const SharedLibrary& library);

}  // namespace tranche::gpu::nvml
