// SPDX-License-Identifier: Apache-2.0
#pragma once
// A vendor's library that may or may not be on this machine. It is never unloaded: drivers leave threads
// behind.
#include <initializer_list>
#include <string>

namespace tranche::gpu {

class SharedLibrary {
 public:
  // The first of these names that loads; an empty one when none does.
  static SharedLibrary open(std::initializer_list<std::string> names);
  [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }
  [[nodiscard]] void* find(const char* symbol) const;

  // Leaves the slot empty when this version of the library has no such function.
  template <class Function>
  void bind(Function*& slot, const char* symbol) const {
    slot = reinterpret_cast<Function*>(find(symbol));
  }

 private:
  void* handle_ = nullptr;
};

// Whether a call exists in this version of the library and returned zero, which is success in all of them.
template <class Function, class... Arguments>
bool succeeds(Function* call, Arguments... arguments) {
  return call != nullptr && static_cast<int>(call(arguments...)) == 0;
}

}  // namespace tranche::gpu
