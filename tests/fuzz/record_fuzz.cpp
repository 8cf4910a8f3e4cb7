// SPDX-License-Identifier: Apache-2.0
// Records: any bytes give a value or a reason; a value that was read is written and read again as the same.
#include "base/check.hpp"
#include "target.hpp"
#include "wire/agent_message.hpp"
#include "wire/codec.hpp"

namespace tranche::fuzz {
namespace {

template <class T>
void round_trip(std::string_view input) {
  const auto value = wire::decode<T>(input);
  if (!value) {
    TRANCHE_CHECK(!value.error().empty());
    return;
  }
  std::string bytes;
  wire::encode(bytes, *value);
  const auto again = wire::decode<T>(bytes);
  TRANCHE_CHECK(again.has_value() && *again == *value);
}

}  // namespace

void fuzz_record(std::string_view input) {
  round_trip<wire::LeaseGrant>(input);
  round_trip<wire::Hello>(input);
  round_trip<wire::MeterReport>(input);
  round_trip<wire::Receipts>(input);
  if (const auto frame = wire::decode<wire::AgentFrame>(input)) fuzz_record(frame->body);
}

}  // namespace tranche::fuzz

TRANCHE_FUZZ_ENTRY(fuzz_record);
