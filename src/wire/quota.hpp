// SPDX-License-Identifier: Apache-2.0
#pragma once
// Quotas: what a party and all below it may hold at once and use in a period, and what is guaranteed to it.
//
// An absent value means that this node says nothing; the nodes above still do.
#include <array>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/ask.hpp"

namespace tranche::wire {

struct QuotaShare {
  std::optional<std::int64_t> guaranteed{};  // Kept for this node; lent while idle.
  std::optional<std::int64_t> limit{};       // Never exceeded, unless the node allows work on demand.
  bool operator==(const QuotaShare&) const = default;
};
BOOST_DESCRIBE_STRUCT(QuotaShare, (), (guaranteed, limit))

enum class Period : std::uint8_t { kDay, kWeek, kMonth };
BOOST_DESCRIBE_ENUM(Period, kDay, kWeek, kMonth)

enum class OverQuota : std::uint8_t { kRefuse, kOnDemand };
BOOST_DESCRIBE_ENUM(OverQuota, kRefuse, kOnDemand)

struct PerJobLimits {  // What one job may ask for.
  std::optional<std::int64_t> gpu_milli{};
  std::optional<std::int64_t> vram_bytes{};
  std::optional<std::int64_t> compute_percent{};
  std::optional<Duration> time{};
  std::optional<Money> spend{};
  bool operator==(const PerJobLimits&) const = default;
};
BOOST_DESCRIBE_STRUCT(PerJobLimits, (), (gpu_milli, vram_bytes, compute_percent, time, spend))

struct Quota {
  QuotaShare gpu_milli{};  // Concurrent GPUs, in thousandths.
  QuotaShare gpu_instances{};
  QuotaShare vram_bytes{};
  QuotaShare storage_bytes{};
  QuotaShare jobs{};
  std::map<std::string, QuotaShare> devices{};  // Milli by catalogue model.
  std::map<std::string, QuotaShare> skus{};     // Counts by SKU name.
  Period period = Period::kMonth;
  QuotaShare gpu_seconds{};      // Per period; a job sets aside its share times its time limit.
  std::optional<Money> spend{};  // Per period.
  std::optional<Duration> wall_time_max{};
  std::optional<Duration> reservation_length_max{};
  std::optional<Duration> reservation_lead_max{};
  std::optional<std::int64_t> priority_max{};
  std::optional<std::vector<Isolation>> isolation{};
  std::optional<bool> may_burst{}, may_buy{}, may_sell{};
  OverQuota over_quota = OverQuota::kRefuse;
  PerJobLimits per_job{};
  std::optional<bool> share_soft{};  // May meet other tenants who say so, too, on a device under the guard.
  std::map<std::string, std::int64_t>
      units{};  // Per period: frames, seconds, steps, requests, tokens, units.
  bool operator==(const Quota&) const = default;
};
BOOST_DESCRIBE_STRUCT(Quota,
                      (),
                      (gpu_milli,
                       gpu_instances,
                       vram_bytes,
                       storage_bytes,
                       jobs,
                       devices,
                       skus,
                       period,
                       gpu_seconds,
                       spend,
                       wall_time_max,
                       reservation_length_max,
                       reservation_lead_max,
                       priority_max,
                       isolation,
                       may_burst,
                       may_buy,
                       may_sell,
                       over_quota,
                       per_job,
                       share_soft,
                       units))

struct Usage {
  std::int64_t gpu_milli = 0;
  std::int64_t gpu_instances = 0;
  std::int64_t vram_bytes = 0;
  std::int64_t storage_bytes = 0;
  std::int64_t jobs = 0;
  std::map<std::string, std::int64_t> devices{};
  std::map<std::string, std::int64_t> skus{};
  std::array<std::int64_t, kWorkloadKinds> gpu_milli_by_kind{};
  std::int64_t gpu_seconds_reserved = 0;
  Money spend_reserved{};
  std::int64_t gpu_seconds_used = 0;  // In the period that runs; these two are filled in for people.
  Money spent{};
  bool operator==(const Usage&) const = default;
};
BOOST_DESCRIBE_STRUCT(Usage,
                      (),
                      (gpu_milli,
                       gpu_instances,
                       vram_bytes,
                       storage_bytes,
                       jobs,
                       devices,
                       skus,
                       gpu_milli_by_kind,
                       gpu_seconds_reserved,
                       spend_reserved,
                       gpu_seconds_used,
                       spent))

}  // namespace tranche::wire
