// SPDX-License-Identifier: Apache-2.0
#pragma once
// TRANCHE_CHECK: a broken invariant is a bug. It stops the process in every build, naming what and where.
#include <cstdio>
#include <cstdlib>

namespace tranche {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "tranche: bug: %s does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace tranche

// A macro because the condition's own text is the message.
#define TRANCHE_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::tranche::check_failed(#condition, __FILE__, __LINE__))
