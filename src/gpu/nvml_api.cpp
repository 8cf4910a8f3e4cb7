// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml_api.hpp"

namespace tranche::gpu::nvml {
namespace {

void load_readings(const SharedLibrary& library, Api& api) {
  library.bind(api.memory, "nvmlDeviceGetMemoryInfo");
  library.bind(api.utilization, "nvmlDeviceGetUtilizationRates");
  library.bind(api.power, "nvmlDeviceGetPowerUsage");
  library.bind(api.temperature, "nvmlDeviceGetTemperature");
  library.bind(api.clock, "nvmlDeviceGetClockInfo");
  library.bind(api.ecc_errors, "nvmlDeviceGetTotalEccErrors");
  library.bind(api.ecc_mode, "nvmlDeviceGetEccMode");
  library.bind(api.remapped_rows, "nvmlDeviceGetRemappedRows");
  library.bind(api.throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  library.bind(api.link_width, "nvmlDeviceGetCurrPcieLinkWidth");
  library.bind(api.link_width_max, "nvmlDeviceGetMaxPcieLinkWidth");
  library.bind(api.link_state, "nvmlDeviceGetNvLinkState");
  library.bind(api.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (api.processes == nullptr) library.bind(api.processes, "nvmlDeviceGetComputeRunningProcesses_v2");
  library.bind(api.process_utilization, "nvmlDeviceGetProcessUtilization");
  library.bind(api.total_energy, "nvmlDeviceGetTotalEnergyConsumption");
  library.bind(api.counter_support, "nvmlGpmQueryDeviceSupport");
  library.bind(api.counter_sample, "nvmlGpmSampleGet");
  library.bind(api.counter_allocate, "nvmlGpmSampleAlloc");
  library.bind(api.counter_free, "nvmlGpmSampleFree");
  library.bind(api.counters, "nvmlGpmMetricsGet");
  library.bind(api.event_set, "nvmlEventSetCreate");
  library.bind(api.register_events, "nvmlDeviceRegisterEvents");
  library.bind(api.wait_event, "nvmlEventSetWait_v2");
}

void load_partitions(const SharedLibrary& library, Api& api) {
  library.bind(api.mig_mode, "nvmlDeviceGetMigMode");
  library.bind(api.set_mig_mode, "nvmlDeviceSetMigMode");
  library.bind(api.mig_count_max, "nvmlDeviceGetMaxMigDeviceCount");
  library.bind(api.mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex");
  library.bind(api.mig_instance_id, "nvmlDeviceGetGpuInstanceId");
  library.bind(api.mig_compute_id, "nvmlDeviceGetComputeInstanceId");
  library.bind(api.attributes, "nvmlDeviceGetAttributes_v2");
  library.bind(api.instance_profile, "nvmlDeviceGetGpuInstanceProfileInfoV");
  library.bind(api.possible_placements, "nvmlDeviceGetGpuInstancePossiblePlacements_v2");
  library.bind(api.create_instance, "nvmlDeviceCreateGpuInstanceWithPlacement");
  library.bind(api.instance_by_id, "nvmlDeviceGetGpuInstanceById");
  library.bind(api.instance_info, "nvmlGpuInstanceGetInfo");
  library.bind(api.destroy_instance, "nvmlGpuInstanceDestroy");
  library.bind(api.compute_profile, "nvmlGpuInstanceGetComputeInstanceProfileInfo");
  library.bind(api.create_compute, "nvmlGpuInstanceCreateComputeInstance");
  library.bind(api.compute_instances, "nvmlGpuInstanceGetComputeInstances");
  library.bind(api.destroy_compute, "nvmlComputeInstanceDestroy");
}

}  // namespace

Api load(const SharedLibrary& library) {
  Api api;
  library.bind(api.init, "nvmlInit_v2");
  library.bind(api.error_text, "nvmlErrorString");
  library.bind(api.driver_version, "nvmlSystemGetDriverVersion");
  library.bind(api.count, "nvmlDeviceGetCount_v2");
  library.bind(api.by_index, "nvmlDeviceGetHandleByIndex_v2");
  library.bind(api.uuid, "nvmlDeviceGetUUID");
  library.bind(api.name, "nvmlDeviceGetName");
  library.bind(api.minor_number, "nvmlDeviceGetMinorNumber");
  library.bind(api.pci, "nvmlDeviceGetPciInfo_v3");
  library.bind(api.set_compute_mode, "nvmlDeviceSetComputeMode");
  load_readings(library, api);
  load_partitions(library, api);
  return api;
}

}  // namespace tranche::gpu::nvml
