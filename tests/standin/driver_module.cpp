// SPDX-License-Identifier: Apache-2.0
// Modules, libraries and functions. An image is text: lines `kernel NAME LENGTH`. Without a list any name is
// found: busy_2ms lasts 2 ms; busy takes its length from the first argument; the rest of the names below do
// real work.
#include <cstring>
#include <fstream>
#include <sstream>

#include "config.hpp"
#include "driver.hpp"

namespace standin {
namespace {

constexpr char kImageMark[] = "standin";

struct Named {
  const char* name;
  KernelKind kind;
};
constexpr Named kWorking[] = {{"busy", KernelKind::kBusyArgument},
                              {"fill", KernelKind::kFill},
                              {"copy", KernelKind::kCopy},
                              {"canary_write", KernelKind::kCanaryWrite},
                              {"canary_check", KernelKind::kCanaryCheck},
                              {"count_nonzero", KernelKind::kCountNonzero},
                              {"add", KernelKind::kAdd}};

CUresult load(CUmodule* out, const char* image, std::size_t size_known) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_unique<CUmod_st>();
  module->device = current_context()->device;
  std::uint64_t bytes = 64 << 10;
  if (std::strncmp(image, kImageMark, sizeof kImageMark - 1) == 0) {
    std::istringstream text(image);
    for (std::string word, name, length; text >> word;) {
      if (word == "kernel" && text >> name >> length) module->listed[name] = parse_quantity(length);
      if (word == "size" && text >> length) bytes = parse_quantity(length);
    }
  } else if (const std::uint64_t told = image_memory(image); told != 0) {
    bytes = told;
  } else if (size_known != 0) {
    bytes = size_known;
  }
  Driver& all = driver();
  const Guard guard(all.mutex);
  const StateLock lock(*all.shared);
  module->block = take_block(*all.shared, module->device, bytes, all.slot);
  if (module->block == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = module.release();
  return CUDA_SUCCESS;
}

CUresult load_file(CUmodule* out, const char* path) {
  std::ifstream file(path == nullptr ? "" : path);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::stringstream text;
  text << file.rdbuf();
  return load(out, text.str().c_str(), text.str().size());
}

CUresult describe(CUmodule module, const std::string& name, CUfunc_st& out) {
  out.name = name;
  out.module = module;
  out.length_ns = driver().config().kernel_ns;
  if (const auto found = module->listed.find(name); found != module->listed.end()) {
    out.length_ns = found->second;
    return CUDA_SUCCESS;
  }
  for (const Named& each : kWorking) {
    if (name != each.name) continue;
    out.kind = each.kind;
    return CUDA_SUCCESS;
  }
  if (name.starts_with("busy_")) {
    try {
      out.length_ns = parse_quantity(name.substr(5));
      return CUDA_SUCCESS;
    } catch (const std::exception&) { return CUDA_ERROR_NOT_FOUND; }
  }
  return module->listed.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult unload(CUmodule module) {
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Driver& all = driver();
  const Guard guard(all.mutex);
  for (const auto& [name, global] : module->globals) free_allocation(global.base);
  const StateLock lock(*all.shared);
  drop_block(*all.shared, module->device, module->block, all.slot);
  delete module;
  return CUDA_SUCCESS;
}

// Any name is a 64 KiB variable, made when first asked for.
CUresult global(CUdeviceptr* out, std::size_t* bytes, CUmodule module, const char* name) {
  const Guard guard(driver().mutex);
  Allocation& memory = module->globals[name];
  if (memory.base == 0) {
    const CUresult status = allocate(current_context(), 64 << 10, MemoryKind::kExternal, memory);
    if (status != CUDA_SUCCESS) {
      module->globals.erase(name);
      return status;
    }
  }
  if (out != nullptr) *out = memory.base;
  if (bytes != nullptr) *bytes = memory.size;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API cuModuleLoadData(CUmodule* out, const void* image) {
  STANDIN_ENTRY(cuModuleLoadData);
  return load(out, static_cast<const char*>(image), 0);
}

STANDIN_API cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*, void**) {
  STANDIN_ENTRY(cuModuleLoadDataEx);
  return load(out, static_cast<const char*>(image), 0);
}

STANDIN_API cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  STANDIN_ENTRY(cuModuleLoadFatBinary);
  return load(out, static_cast<const char*>(image), 0);
}

STANDIN_API cuModuleLoad(CUmodule* out, const char* path) {
  STANDIN_ENTRY(cuModuleLoad);
  return load_file(out, path);
}

STANDIN_API cuModuleUnload(CUmodule module) {
  STANDIN_ENTRY(cuModuleUnload);
  return unload(module);
}

STANDIN_API cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  STANDIN_ENTRY(cuModuleGetFunction);
  if (module == nullptr || out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  std::unique_ptr<CUfunc_st>& function = module->functions[name];
  if (!function) {
    auto made = std::make_unique<CUfunc_st>();
    const CUresult status = describe(module, name, *made);
    if (status != CUDA_SUCCESS) {
      module->functions.erase(name);
      return status;
    }
    function = std::move(made);
  }
  *out = function.get();
  return CUDA_SUCCESS;
}

STANDIN_API cuModuleGetFunctionCount(unsigned int* count, CUmodule module) {
  STANDIN_ENTRY(cuModuleGetFunctionCount);
  *count = static_cast<unsigned>(module->listed.size());
  return CUDA_SUCCESS;
}

STANDIN_API cuModuleGetGlobal_v2(CUdeviceptr* out, size_t* bytes, CUmodule module, const char* name) {
  STANDIN_ENTRY(cuModuleGetGlobal_v2);
  if (module == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return global(out, bytes, module, name);
}

STANDIN_API cuLibraryLoadData(CUlibrary* out,
                              const void* image,
                              CUjit_option*,
                              void**,
                              unsigned int,
                              CUlibraryOption*,
                              void**,
                              unsigned int) {
  STANDIN_ENTRY(cuLibraryLoadData);
  auto library = std::make_unique<CUlib_st>();
  if (const CUresult status = load(&library->module, static_cast<const char*>(image), 0);
      status != CUDA_SUCCESS)
    return status;
  *out = library.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuLibraryLoadFromFile(CUlibrary* out,
                                  const char* path,
                                  CUjit_option*,
                                  void**,
                                  unsigned int,
                                  CUlibraryOption*,
                                  void**,
                                  unsigned int) {
  STANDIN_ENTRY(cuLibraryLoadFromFile);
  auto library = std::make_unique<CUlib_st>();
  if (const CUresult status = load_file(&library->module, path); status != CUDA_SUCCESS) return status;
  *out = library.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuLibraryUnload(CUlibrary library) {
  STANDIN_ENTRY(cuLibraryUnload);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult status = unload(library->module);
  delete library;
  return status;
}

STANDIN_API cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  STANDIN_ENTRY(cuLibraryGetModule);
  *out = library->module;
  return CUDA_SUCCESS;
}

STANDIN_API cuLibraryGetGlobal(CUdeviceptr* out, size_t* bytes, CUlibrary library, const char* name) {
  STANDIN_ENTRY(cuLibraryGetGlobal);
  return global(out, bytes, library->module, name);
}

STANDIN_API cuLibraryGetKernelCount(unsigned int* count, CUlibrary library) {
  STANDIN_ENTRY(cuLibraryGetKernelCount);
  *count = static_cast<unsigned>(library->module->listed.size());
  return CUDA_SUCCESS;
}

STANDIN_API cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  STANDIN_ENTRY(cuLibraryGetKernel);
  const Guard guard(driver().mutex);
  std::unique_ptr<CUkern_st>& kernel = library->kernels[name];
  if (!kernel) {
    auto made = std::make_unique<CUkern_st>();
    const CUresult status = describe(library->module, name, made->function);
    if (status != CUDA_SUCCESS) {
      library->kernels.erase(name);
      return status;
    }
    made->library = library;
    kernel = std::move(made);
  }
  *out = kernel.get();
  return CUDA_SUCCESS;
}

STANDIN_API cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  STANDIN_ENTRY(cuKernelGetFunction);
  *out = &kernel->function;
  return CUDA_SUCCESS;
}

STANDIN_API cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  STANDIN_ENTRY(cuKernelGetLibrary);
  *out = kernel->library;
  return CUDA_SUCCESS;
}

STANDIN_API cuKernelGetName(const char** out, CUkernel kernel) {
  STANDIN_ENTRY(cuKernelGetName);
  *out = kernel->function.name.c_str();
  return CUDA_SUCCESS;
}

STANDIN_API cuFuncGetName(const char** out, CUfunction function) {
  STANDIN_ENTRY(cuFuncGetName);
  *out = function->name.c_str();
  return CUDA_SUCCESS;
}

STANDIN_API cuFuncGetModule(CUmodule* out, CUfunction function) {
  STANDIN_ENTRY(cuFuncGetModule);
  *out = function->module;
  return CUDA_SUCCESS;
}

STANDIN_API cuFuncLoad(CUfunction) {
  STANDIN_ENTRY(cuFuncLoad);
  return CUDA_SUCCESS;
}

STANDIN_API cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  STANDIN_ENTRY(cuFuncGetAttribute);
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

STANDIN_API cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  STANDIN_ENTRY(cuFuncSetAttribute);
  return CUDA_SUCCESS;
}

STANDIN_API cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  STANDIN_ENTRY(cuFuncSetBlockShape);
  function->block_shape[0] = x;
  function->block_shape[1] = y;
  function->block_shape[2] = z;
  return CUDA_SUCCESS;
}
