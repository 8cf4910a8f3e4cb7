// SPDX-License-Identifier: Apache-2.0
// TEST EQUIPMENT, never installed: what ROCm SMI and Level Zero say of one simulated machine with two MI300X
// and one Max 1550. Fixed answers; the ecc count rises with every reading, so that a change can be seen.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default"))) int

API rsmi_init(uint64_t flags) {
  return flags == 0 ? 0 : 1;
}
API rsmi_num_monitor_devices(uint32_t* count) {
  *count = 2;
  return 0;
}
API rsmi_dev_name_get(uint32_t index, char* name, size_t room) {
  snprintf(name, room, "AMD Instinct MI300X");
  return index < 2 ? 0 : 1;
}
API rsmi_dev_unique_id_get(uint32_t index, uint64_t* id) {
  *id = 0xabcdef0000000000ULL + index;
  return 0;
}
API rsmi_dev_pci_id_get(uint32_t index, uint64_t* id) {
  *id = (uint64_t)(0x1u + index) << 32 | 0xc5u << 8;
  return 0;
}
API rsmi_dev_memory_total_get(uint32_t index, uint32_t kind, uint64_t* bytes) {
  *bytes = 206141652992ULL;
  return index < 2 && kind == 0 ? 0 : 1;
}
API rsmi_dev_memory_usage_get(uint32_t index, uint32_t kind, uint64_t* bytes) {
  *bytes = 1000000ULL * (index + 1);
  return kind == 0 ? 0 : 1;
}
API rsmi_dev_busy_percent_get(uint32_t index, uint32_t* percent) {
  *percent = 40 + index;
  return 0;
}
API rsmi_dev_power_ave_get(uint32_t index, uint32_t sensor, uint64_t* microwatts) {
  *microwatts = 141500000ULL + index;
  return sensor == 0 ? 0 : 1;
}
API rsmi_dev_temp_metric_get(uint32_t index, uint32_t sensor, uint32_t metric, int64_t* millidegrees) {
  *millidegrees = 43000 + index;
  return sensor == 1 && metric == 0 ? 0 : 1;
}
API rsmi_dev_ecc_count_get(uint32_t index, uint64_t block, uint64_t counts[2]) {
  static uint64_t readings;
  counts[0] = 0;
  counts[1] = index == 1 && block == 1 ? ++readings : 0;
  return 0;
}
API rsmi_version_str_get(uint32_t component, char* text, uint32_t room) {
  snprintf(text, room, "6.0 SIMULATED");
  return (int)component;
}

struct core_properties {
  uint32_t structure;
  void* next;
  uint32_t type, vendor, device, flags, subdevice, core_clock;
  uint64_t allocation_max;
  uint32_t contexts, priority, threads, simd, units, subslices, slices;
  uint64_t timer;
  uint32_t bits, kernel_bits;
  uint8_t uuid[16];
  char name[256];
};
struct device_properties {
  uint32_t structure;
  void* next;
  struct core_properties core;
  uint32_t subdevices;
  char serial[64], board[64], brand[64], model[64], vendor[64], driver[64];
};
struct pci_properties {
  uint32_t structure;
  void* next;
  uint32_t domain, bus, device, function;
};
struct memory_state {
  uint32_t structure;
  const void* next;
  uint32_t health;
  uint64_t free, size;
};

static int one_of_one(uint32_t* count, void** handles) {
  static int thing;
  if (handles != NULL && *count > 0) handles[0] = &thing;
  *count = 1;
  return 0;
}
API zesInit(uint32_t flags) {
  return (int)flags;
}
API zesDriverGet(uint32_t* count, void** handles) {
  return one_of_one(count, handles);
}
API zesDeviceGet(void* driver, uint32_t* count, void** handles) {
  return driver == NULL ? 1 : one_of_one(count, handles);
}
API zesDeviceGetProperties(void* device, struct device_properties* out) {
  if (device == NULL || out->structure != 1) return 1;
  out->core.type = 1;
  out->core.slices = 8;
  out->core.subslices = 16;
  memset(out->core.uuid, 0x7e, sizeof out->core.uuid);
  snprintf(out->core.name, sizeof out->core.name, "Intel(R) Data Center GPU Max 1550");
  snprintf(out->driver, sizeof out->driver, "SIMULATED");
  return 0;
}
API zesDevicePciGetProperties(void* device, struct pci_properties* out) {
  out->domain = 0;
  out->bus = 0x9a;
  out->device = 0;
  out->function = 1;
  return device == NULL;
}
API zesDeviceEnumMemoryModules(void* device, uint32_t* count, void** handles) {
  return device == NULL ? 1 : one_of_one(count, handles);
}
API zesMemoryGetState(void* memory, struct memory_state* out) {
  out->size = 137438953472ULL;
  out->free = 137438953472ULL - 5000;
  return memory == NULL;
}
