// SPDX-License-Identifier: Apache-2.0
// Job files: any text gives a job or a problem; the canonical JSON and the record of a job give the same job.
#include "base/check.hpp"
#include "target.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"

namespace tranche::fuzz {

void fuzz_job_file(std::string_view input) {
  const auto job = wire::parse_job_file(input);
  if (!job) {
    TRANCHE_CHECK(!wire::text(job.error()).empty());
    return;
  }
  const auto from_json = wire::parse_job_file(wire::to_json(*job));
  // YAML lets bytes through that are not UTF-8; JSON replaces them, so only what is text must come back
  // equal.
  TRANCHE_CHECK(from_json.has_value());
  const auto settled = wire::parse_job_file(wire::to_json(*from_json));
  TRANCHE_CHECK(settled.has_value() && *settled == *from_json);
  std::string bytes;
  wire::encode(bytes, *job);
  const auto from_record = wire::decode<wire::JobSpec>(bytes);
  TRANCHE_CHECK(from_record.has_value() && *from_record == *job);
}

}  // namespace tranche::fuzz

TRANCHE_FUZZ_ENTRY(fuzz_job_file);
