// SPDX-License-Identifier: Apache-2.0
#pragma once
// "Did you mean …?": the known word that is closest to a misspelt one.
#include <span>
#include <string>
#include <string_view>

namespace tranche::wire {

// Empty when nothing is close enough to be worth naming. Case does not count; ties go to the first.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// "did you mean 'gpus'?", or empty.
std::string nearest_hint(std::string_view word, std::span<const std::string_view> known);

}  // namespace tranche::wire
