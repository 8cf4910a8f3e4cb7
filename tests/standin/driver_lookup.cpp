// SPDX-License-Identifier: Apache-2.0
// How programs find entry points. TRANCHE_STANDIN_HIDE lists names that lookups deny; the library
// `old/libcuda.so.1` does not even export what older drivers lack.
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "driver.hpp"

namespace standin {
namespace {

bool hidden(const std::string& symbol) {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    const char* list = std::getenv("TRANCHE_STANDIN_HIDE");
    std::istringstream text(list == nullptr ? "" : list);
    for (std::string name; std::getline(text, name, ',');) all.insert(name);
    return all;
  }();
  return names.contains(symbol);
}

CUresult look_up(
    const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  const SymbolVersion* best = nullptr;
  bool known = false;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const SharedState* shared = attach_state();
  const int driver_version = shared == nullptr ? 13000 : shared->config.driver_version;
  for (unsigned i = 0; i < kSymbolVersionCount; ++i) {
    const SymbolVersion& each = kSymbolVersions[i];
    if (std::strcmp(each.name, name) != 0 || each.version > driver_version || hidden(each.symbol)) continue;
    known = true;
    if (each.version <= version) best = &each;
  }
  const CUdriverProcAddressQueryResult result = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
                                                : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                                : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (found != nullptr) *found = result;
  if (best == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = per_thread && best->per_thread_address != nullptr ? best->per_thread_address : best->address;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
  STANDIN_ENTRY(cuGetProcAddress);
  return look_up(name, out, version, flags, nullptr);
}

STANDIN_API cuGetProcAddress_v2(
    const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  STANDIN_ENTRY(cuGetProcAddress_v2);
  return look_up(name, out, version, flags, found);
}

// One private table, as real drivers have many: entry points that no look-up by name passes.
STANDIN_API cuGetExportTable(const void** table, const CUuuid* name) {
  STANDIN_ENTRY(cuGetExportTable);
  static const struct {
    std::size_t bytes;
    decltype(&cuMemAlloc_v2) allocate;
    decltype(&cuLaunchKernel) launch;
  } own{sizeof own, &cuMemAlloc_v2, &cuLaunchKernel};
  const bool known = name != nullptr && std::memcmp(name->bytes, "SIMULATED TABLE1", sizeof name->bytes) == 0;
  if (table != nullptr) *table = known ? &own : nullptr;
  return known && table != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
