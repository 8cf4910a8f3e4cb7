// SPDX-License-Identifier: Apache-2.0
#pragma once
// A call to the kernel that did not work, as an exception.
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tranche::agent {

[[noreturn]] inline void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace tranche::agent
