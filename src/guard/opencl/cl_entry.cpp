// SPDX-License-Identifier: Apache-2.0
// How does the front get between a program and its OpenCL driver?
//   as a layer      OPENCL_LAYERS names this library; the loader calls clInitLayer.
//   as the driver   the only .icd file of a sandbox names this library. It loads the real drivers itself and
//   puts
//                   its own entry points into their tables, so that whatever loader or object a program uses,
//                   the call arrives here. No variable switches this off.
#include <CL/cl_layer.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard/opencl/cl_front.hpp"

namespace tranche::guard::opencl {

cl_icd_dispatch real = {};
cl_icd_dispatch ours = {};

namespace {

pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
enum class Way { kNone, kLayer, kDriver };
Way way = Way::kNone;

void install(const cl_icd_dispatch& below) {
  real = below;
  ours = below;
  install_views(ours);
  install_memory(ours);
  install_images(ours);
  install_kernels(ours);
  install_copies(ours);
  install_rect_copies(ours);
  install_shared_memory(ours);
  set_poll([] {});  // Measures arrive by callback; waiting for them is all there is to do.
}

// Puts our entry points into a driver's own table. Only the first driver is taken: one device, one driver.
bool patch(cl_icd_dispatch* table) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t from = reinterpret_cast<std::uintptr_t>(table) & ~(page - 1);
  const std::uintptr_t until = (reinterpret_cast<std::uintptr_t>(table + 1) + page - 1) & ~(page - 1);
  if (::mprotect(reinterpret_cast<void*>(from), until - from, PROT_READ | PROT_WRITE) != 0) return false;
  install(*table);
  *table = ours;
  return true;
}

using IcdGetPlatforms = cl_int(CL_API_CALL*)(cl_uint, cl_platform_id*, cl_uint*);
using GetExtension = void*(CL_API_CALL*)(const char*);

IcdGetPlatforms real_platforms = nullptr;

bool load_driver(const char* path) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  auto* extension = reinterpret_cast<GetExtension>(::dlsym(library, "clGetExtensionFunctionAddress"));
  if (extension == nullptr) return false;
  real_platforms = reinterpret_cast<IcdGetPlatforms>(extension("clIcdGetPlatformIDsKHR"));
  return real_platforms != nullptr;
}

// The folder that a sandbox binds comes first; no variable can lead away from it.
bool load_from(const char* folder) {
  DIR* listing = ::opendir(folder);
  if (listing == nullptr) return false;
  bool loaded = false;
  while (const dirent* entry = ::readdir(listing)) {
    char path[512];
    char line[256] = "";
    std::snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    std::FILE* file = std::strstr(entry->d_name, ".icd") == nullptr ? nullptr : std::fopen(path, "re");
    if (file == nullptr) continue;
    if (std::fgets(line, sizeof line, file) != nullptr) line[std::strcspn(line, "\r\n")] = 0;
    std::fclose(file);
    if (line[0] == 0 || std::strstr(line, "tranche-guard") != nullptr) continue;
    loaded = load_driver(line);
    if (loaded) break;
  }
  ::closedir(listing);
  return loaded;
}

bool become_driver() {
  if (way != Way::kNone) return way == Way::kDriver;
  if (!load_from("/run/tranche/opencl") && !load_from("/etc/OpenCL/vendors")) return false;
  cl_platform_id platform = nullptr;
  cl_uint count = 0;
  if (real_platforms(1, &platform, &count) != CL_SUCCESS || platform == nullptr) return false;
  if (!patch(*reinterpret_cast<cl_icd_dispatch**>(platform))) return false;
  way = Way::kDriver;
  return true;
}

cl_int CL_API_CALL icd_get_platforms(cl_uint room, cl_platform_id* out, cl_uint* count) {
  bool ready = false;
  {
    const Lock lock(install_lock);
    ready = become_driver();
  }
  if (!ready || attach() != Attachment::kAttached) {
    if (count != nullptr) *count = 0;
    return -1001;  // CL_PLATFORM_NOT_FOUND_KHR
  }
  return real_platforms(room, out, count);
}

}  // namespace
}  // namespace tranche::guard::opencl

using namespace tranche::guard::opencl;

#define GUARD_EXPORT extern "C" __attribute__((visibility("default")))

GUARD_EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t room, void* value, size_t* size) {
  static const char title[] = "Tranche guard";
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  const bool is_name = name == CL_LAYER_NAME;
  if (!is_name && name != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  const size_t bytes = is_name ? sizeof title : sizeof version;
  if (size != nullptr) *size = bytes;
  if (value == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(value, is_name ? static_cast<const void*>(title) : &version, bytes);
  return CL_SUCCESS;
}

GUARD_EXPORT cl_int CL_API_CALL clInitLayer(cl_uint entries,
                                            const cl_icd_dispatch* target,
                                            cl_uint* entries_out,
                                            const cl_icd_dispatch** table_out) {
  constexpr cl_uint known = sizeof(cl_icd_dispatch) / sizeof(void*);
  if (target == nullptr || entries_out == nullptr || table_out == nullptr) return CL_INVALID_VALUE;
  const Lock lock(install_lock);
  static cl_icd_dispatch below = {};
  std::memcpy(&below, target, sizeof(void*) * (entries < known ? entries : known));
  if (way == Way::kDriver) {
    *table_out = &below;  // The driver itself is guarded already: nothing twice.
  } else {
    install(below);
    way = Way::kLayer;
    *table_out = &ours;
  }
  *entries_out = entries < known ? entries : known;
  return CL_SUCCESS;
}

GUARD_EXPORT cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id* out, cl_uint* count) {
  return icd_get_platforms(room, out, count);
}

GUARD_EXPORT void* CL_API_CALL clGetExtensionFunctionAddress(const char* name) {
  if (name == nullptr) return nullptr;
  if (std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0) return reinterpret_cast<void*>(&icd_get_platforms);
  if (std::strcmp(name, "clGetPlatformInfo") == 0) {  // Asked by loaders before any platform is known.
    const Lock lock(install_lock);
    if (way == Way::kNone) become_driver();
    return reinterpret_cast<void*>(ours.clGetPlatformInfo);
  }
  if (ours.clGetExtensionFunctionAddress != nullptr) return ours.clGetExtensionFunctionAddress(name);
  return nullptr;
}
