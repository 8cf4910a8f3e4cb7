// SPDX-License-Identifier: Apache-2.0
#include "wire/amount_text.hpp"

#include <doctest/doctest.h>
#include <limits>

namespace tranche::wire {
namespace {

TEST_CASE("amount: numbers of limits are written in the unit of their limit") {
  CHECK(amount_text("gpu_milli", 4000) == "4 GPUs");
  CHECK(amount_text("per_job.gpu_milli", 1000) == "1 GPU");
  CHECK(amount_text("devices.H100", 1500) == "1.5 GPUs");
  CHECK(amount_text("rule 'renders at most 40 %'", 250) == "0.25 GPUs");
  CHECK(amount_text("gpu_seconds", 5400) == "1.5 GPU-hours");
  CHECK(amount_text("wall_time_max", 8 * 3600) == "8h");
  CHECK(amount_text("reservation_lead_max", 90) == "1m30s");
  CHECK(amount_text("spend", 2'500'000) == "2.50");
  CHECK(amount_text("per_job.spend", 5'000'000) == "5.00");
  CHECK(amount_text("credit", 1'485'000) == "1.485");
  CHECK(amount_text("per_job.compute_percent", 30) == "30 %");
  CHECK(amount_text("immediate", 500) == "0.5");
  CHECK(amount_text("contract", 1000) == "1");
  CHECK(amount_text("jobs", 7) == "7 jobs");
  CHECK(amount_text("jobs", 1) == "1 job");
  CHECK(amount_text("gpu_instances", 3) == "3");
}

TEST_CASE("amount: sizes are exact where that is short, and else not more than there is") {
  CHECK(amount_text("vram_bytes", 80'000'000'000) == "80GB");
  CHECK(amount_text("vram_bytes", 80LL << 30U) == "80GiB");
  CHECK(amount_text("storage_bytes", 12'345'678'901) == "12.345GB");
}

TEST_CASE("amount: thousandths carry no needless zeros, whatever the number") {
  CHECK(thousandths_text(4000) == "4");
  CHECK(thousandths_text(1) == "0.001");
  CHECK(thousandths_text(-1500) == "-1.5");
  CHECK(thousandths_text(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775.808");
}

}  // namespace
}  // namespace tranche::wire
