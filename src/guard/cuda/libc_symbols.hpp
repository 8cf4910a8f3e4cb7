// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds a function in libc itself by walking its symbol table. dlsym cannot be asked: it is what is being
// hooked.

namespace tranche::guard {

void* libc_function(const char* name);

}  // namespace tranche::guard
