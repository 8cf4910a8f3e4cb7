// SPDX-License-Identifier: Apache-2.0
// Journal records: any bytes give a record or a reason; one that was read writes to bytes that read the same.
#include "base/check.hpp"
#include "engine/record.hpp"
#include "target.hpp"

namespace tranche::fuzz {

void fuzz_journal_record(std::string_view input) {
  const auto record = engine::decode_record(input);
  if (!record) {
    TRANCHE_CHECK(!record.error().empty());
    return;
  }
  const std::string bytes = engine::encode_record(record->envelope, record->command, record->events);
  const auto again = engine::decode_record(bytes);
  TRANCHE_CHECK(again.has_value());
  TRANCHE_CHECK(engine::encode_record(again->envelope, again->command, again->events) == bytes);
  for (const auto& event : record->events) TRANCHE_CHECK(!engine::event_name(event).empty());
}

}  // namespace tranche::fuzz

TRANCHE_FUZZ_ENTRY(fuzz_journal_record);
