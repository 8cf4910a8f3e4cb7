// SPDX-License-Identifier: Apache-2.0
#include "cli/quota_flags.hpp"

#include <doctest/doctest.h>

namespace tranche::cli {
namespace {

using wire::Quota;

Quota with(std::vector<std::pair<std::string_view, std::string_view>> flags) {
  Quota quota;
  for (const auto& [flag, value] : flags) {
    const auto changed = set_quota_flag(quota, flag, value);
    CHECK_MESSAGE(changed.has_value(), (changed ? "" : changed.error()));
  }
  return quota;
}

TEST_CASE("quota flags: each lands in its field, in the field's unit") {
  const Quota quota = with({{"gpus", "4"},
                            {"guaranteed-gpus", "2.5"},
                            {"vram", "80GB"},
                            {"storage", "1TiB"},
                            {"jobs", "10"},
                            {"gpu-hours", "100"},
                            {"spend", "500"},
                            {"device", "H100=2"},
                            {"guaranteed-device", "H100=0.5"},
                            {"sku", "small=4"},
                            {"max-time", "8h"},
                            {"max-priority", "60"},
                            {"isolation", "soft,hard"},
                            {"over-quota", "on-demand"},
                            {"period", "week"},
                            {"burst", "yes"},
                            {"sell", "no"},
                            {"job-gpus", "1"},
                            {"job-vram", "40GB"},
                            {"job-compute", "50%"},
                            {"job-time", "90m"},
                            {"job-spend", "2.50"}});
  Quota wanted;
  wanted.gpu_milli = {.guaranteed = 2500, .limit = 4000};
  wanted.vram_bytes.limit = 80'000'000'000;
  wanted.storage_bytes.limit = 1'099'511'627'776;
  wanted.jobs.limit = 10;
  wanted.gpu_seconds.limit = 360'000;
  wanted.spend = units(500);
  wanted.devices["H100"] = {.guaranteed = 500, .limit = 2000};
  wanted.skus["small"].limit = 4;
  wanted.wall_time_max = std::chrono::hours(8);
  wanted.priority_max = 60;
  wanted.isolation = {wire::Isolation::kSoft, wire::Isolation::kHard};
  wanted.over_quota = wire::OverQuota::kOnDemand;
  wanted.period = wire::Period::kWeek;
  wanted.may_burst = true;
  wanted.may_sell = false;
  wanted.per_job = {.gpu_milli = 1000,
                    .vram_bytes = 40'000'000'000,
                    .compute_percent = 50,
                    .time = std::chrono::minutes(90),
                    .spend = Money{2'500'000}};
  CHECK(quota == wanted);
}

TEST_CASE("quota flags: the example of every flag is taken, and clearing the flag undoes it") {
  for (const QuotaFlag& flag : quota_flags()) {
    CAPTURE(std::string(flag.name));
    Quota quota;
    CHECK(set_quota_flag(quota, flag.name, flag.example).has_value());
    const bool usual = flag.name == "period";  // Its example is what it is anyway.
    CHECK((quota == Quota{}) == usual);
    CHECK(clear_quota_flag(quota, flag.name).has_value());
    CHECK(quota == Quota{});
  }
}

TEST_CASE("quota flags: a bad value names the flag and a good one, and changes nothing") {
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string_view, std::string_view>>{{"gpus", "-1"},
                                                                  {"gpus", "1.2345"},
                                                                  {"gpus", "-0.5"},
                                                                  {"gpus", ""},
                                                                  {"vram", "many"},
                                                                  {"device", "H100"},
                                                                  {"device", "=2"},
                                                                  {"isolation", "soft,"},
                                                                  {"max-priority", "101"},
                                                                  {"over-quota", "maybe"}}) {
    Quota quota;
    const auto changed = set_quota_flag(quota, flag, value);
    CAPTURE(std::string(flag) + " " + std::string(value));
    REQUIRE_FALSE(changed);
    CHECK(changed.error().starts_with("--" + std::string(flag) + " takes a value such as "));
    CHECK(quota == Quota{});
  }
}

TEST_CASE("quota flags: one device can be cleared, and a misspelt name is answered with the nearest") {
  Quota quota = with({{"device", "H100=2"}, {"device", "A100=1"}});
  CHECK(clear_quota_flag(quota, "device=H100").has_value());
  CHECK(quota.devices.size() == 1);
  CHECK(clear_quota_flag(quota, "device=H100").error() == "there is no quota on device=H100");
  CHECK(clear_quota_flag(quota, "gpuz").error() ==
        "--clear takes the name of a flag, not 'gpuz'; did you mean 'gpus'?");
}

TEST_CASE("quota rows: guaranteed, used and limit, only of what is set or used") {
  wire::QuotaView view;
  CHECK(quota_rows(view).empty());
  view.quota =
      with({{"gpus", "4"}, {"device", "H100=2"}, {"gpu-hours", "1.5"}, {"spend", "10"}, {"job-time", "1h"}});
  view.usage.gpu_milli = 1500;
  view.usage.vram_bytes = 20'000'000'000;
  view.usage.gpu_seconds_reserved = 1800;
  std::string text;
  for (const QuotaRow& row : quota_rows(view)) {
    text += row.what + "|" + row.guaranteed + "|" + row.used + "|" + row.limit + "\n";
  }
  CHECK(text ==
        "GPUs|-|1.5|4\n"
        "VRAM|-|20GB|-\n"
        "device H100|-|0|2\n"
        "GPU-hours a month|-|0.5|1.5\n"
        "spend a month|-|0.00|10.00\n"
        "time of one job|-|-|1h\n");
}

}  // namespace
}  // namespace tranche::cli
