// SPDX-License-Identifier: Apache-2.0
// JSON: any text gives a value or a problem; what was read, written and read again is the same.
#include "base/check.hpp"
#include "target.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"
#include "wire/why.hpp"

namespace tranche::fuzz {
namespace {

template <class T>
void round_trip(std::string_view input) {
  const auto value = wire::from_json<T>(input, {.bytes_max = std::size_t{1} << 16});
  if (!value) {
    TRANCHE_CHECK(!value.error().message.empty());
    return;
  }
  const auto again = wire::from_json<T>(wire::to_json(*value));
  TRANCHE_CHECK(again.has_value());
  TRANCHE_CHECK(*again == *value);
}

}  // namespace

void fuzz_json(std::string_view input) {
  round_trip<wire::JobSpec>(input);
  round_trip<wire::Why>(input);
}

}  // namespace tranche::fuzz

TRANCHE_FUZZ_ENTRY(fuzz_json);
