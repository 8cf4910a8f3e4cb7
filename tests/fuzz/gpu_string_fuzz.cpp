// SPDX-License-Identifier: Apache-2.0
// GPU strings: what is read prints to a form that reads the same; a mistake has a place inside the text.
#include "base/check.hpp"
#include "target.hpp"
#include "wire/gpu_request.hpp"

namespace tranche::fuzz {

void fuzz_gpu_string(std::string_view input) {
  const auto request = wire::parse_gpu_request(input);
  if (!request) {
    TRANCHE_CHECK(request.error().position <= input.size());
    TRANCHE_CHECK(!request.error().message.empty());
    return;
  }
  const std::string canonical = wire::text(*request);
  const auto again = wire::parse_gpu_request(canonical);
  TRANCHE_CHECK(again.has_value() && *again == *request);
  TRANCHE_CHECK(wire::text(*again) == canonical);
}

}  // namespace tranche::fuzz

TRANCHE_FUZZ_ENTRY(fuzz_gpu_string);
