// SPDX-License-Identifier: Apache-2.0
#pragma once
// Result<T, E>: an expected refusal is a value. Exceptions are kept for a failing world (disk, network).
#include <tl/expected.hpp>
#include <utility>

namespace tranche {

template <class T, class E>
using Result = tl::expected<T, E>;

template <class E>
constexpr tl::unexpected<std::decay_t<E>> refuse(E&& reason) {
  return tl::unexpected<std::decay_t<E>>(std::forward<E>(reason));
}

}  // namespace tranche
