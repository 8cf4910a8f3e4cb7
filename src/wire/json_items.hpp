// SPDX-License-Identifier: Apache-2.0
#pragma once
// The elements of a long list, one text after the other: a page of ten thousand rows is read without a tree
// of all of them in memory.
#include <functional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "wire/codec.hpp"

namespace tranche::wire {

// Calls `visit` with the text of each element of the list named `list` of the object `json`, until it returns
// false. Elements are cut out, not checked: reading them does that. The result is the object without the
// elements, to be read for what else it says; empty when `visit` ended it.
Result<std::string, Problem> each_item(std::string_view json,
                                       std::string_view list,
                                       const std::function<bool(std::string_view)>& visit);

}  // namespace tranche::wire
