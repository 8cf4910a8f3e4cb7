// SPDX-License-Identifier: Apache-2.0
#include "guard/cuda/own_memory.hpp"

#include <unistd.h>

#include "guard/session.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr useconds_t kTurnPollUs = 50;
constexpr int kReadingsMax = 8;

std::atomic<std::uint64_t> own_memory[kDevicesMax];  // NOLINT: charged beyond what the program asked for.
std::atomic<int> turn_holder;                        // NOLINT: pid; zero: nobody.

struct ProcessInfo {  // nvmlProcessInfo_t of the v2 and v3 calls
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

// Bytes of this process on the device, as the device itself counts them; false when it does not tell.
bool reported_bytes(std::uint32_t device, std::uint64_t& bytes) {
  auto* init = reinterpret_cast<int (*)()>(nvml_function("nvmlInit_v2"));
  auto* get = reinterpret_cast<int (*)(unsigned, void**)>(nvml_function("nvmlDeviceGetHandleByIndex_v2"));
  auto* list = reinterpret_cast<int (*)(void*, unsigned*, ProcessInfo*)>(
      nvml_function("nvmlDeviceGetComputeRunningProcesses_v3"));
  static std::atomic<bool> ready;
  void* handle = nullptr;
  if (init == nullptr || get == nullptr || list == nullptr) return false;
  if (!ready.load() && init() != 0) return false;
  ready.store(true);
  ProcessInfo found[256];
  unsigned count = 256;
  if (get(device, &handle) != 0 || list(handle, &count, found) != 0) return false;
  const auto own = static_cast<unsigned>(::getpid());
  for (unsigned i = 0; i < count && i < 256; ++i) {
    if (found[i].pid != own) continue;
    bytes = found[i].used_bytes;
    return true;
  }
  return false;
}

// What the device reports, and what was charged to this process at that moment: another thread may allocate
// between the two readings, and then they are taken again.
bool read_both(std::uint32_t device, std::uint64_t& reported, std::uint64_t& accounted) {
  const VramAccount account(ledger_region(), device);
  const std::uint32_t slot = session.slot.load();
  for (int i = 0; i < kReadingsMax; ++i) {
    accounted = account.used_by(slot);
    if (!reported_bytes(device, reported)) return false;
    if (account.used_by(slot) == accounted) break;
  }
  return true;
}

void set_own_memory(std::uint32_t device, std::uint64_t bytes) {
  own_memory[device].store(bytes);
  ledger_region()->processes[session.slot.load()].own[device].store(bytes);
}

}  // namespace

OwnMemoryTurn::OwnMemoryTurn() {
  const int self = ::getpid();
  for (;;) {
    int holder = turn_holder.load();
    if (holder != self && turn_holder.compare_exchange_strong(holder, self)) return;
    ::usleep(kTurnPollUs);
  }
}

OwnMemoryTurn::~OwnMemoryTurn() {
  turn_holder.store(0);
}

std::uint64_t own_memory_of(std::uint32_t device) {
  return own_memory[device].load();
}

bool reserve_own_memory(const char* api, std::uint32_t device, std::uint64_t bytes) {
  if (bytes == 0) return true;
  VramAnswer answer = reserve(device, bytes);
  if (!answer.granted && settle_pools(PoolCare::kTrim)) answer = reserve(device, bytes);
  if (!answer.granted) {
    log_refusal(api, device, bytes, answer);
    return false;
  }
  own_memory[device].fetch_add(bytes);
  return true;
}

bool settle_own_memory(const char* api, std::uint32_t device, std::uint64_t* lacked) {
  std::uint64_t reported = 0;
  std::uint64_t accounted = 0;
  if (device >= kDevicesMax || !has_slot()) return true;
  settle_pools(
      PoolCare::kRead);  // What pools gave back since must not be taken for memory of the driver's own.
  if (!read_both(device, reported, accounted)) return true;
  const std::uint64_t before = own_memory_of(device);
  const std::uint64_t asked = accounted > before ? accounted - before : 0;
  const std::uint64_t wanted = reported > asked ? reported - asked : 0;
  if (wanted <= before) {
    set_own_memory(device, wanted);
    release(device, before - wanted);
    return true;
  }
  const VramAnswer answer = reserve(device, wanted - before);
  if (!answer.granted) {
    if (lacked != nullptr) *lacked = wanted - before;
    log_refusal(api, device, wanted - before, answer);
    return false;
  }
  set_own_memory(device, wanted);
  return true;
}

}  // namespace tranche::guard::cuda
