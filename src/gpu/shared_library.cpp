// SPDX-License-Identifier: Apache-2.0
#include "gpu/shared_library.hpp"

#include <dlfcn.h>

namespace tranche::gpu {

SharedLibrary SharedLibrary::open(std::initializer_list<std::string> names) {
  SharedLibrary library;
  for (const std::string& name : names) {
    library.handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library) break;
  }
  return library;
}

void* SharedLibrary::find(const char* symbol) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

}  // namespace tranche::gpu
