// SPDX-License-Identifier: Apache-2.0
#include "cli/quota_flags.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "base/text.hpp"
#include "cli/human.hpp"
#include "wire/fields.hpp"
#include "wire/nearest.hpp"

namespace tranche::cli {
namespace {

using wire::Isolation;
using wire::Quota;
using Share = wire::QuotaShare;

using Amount = std::optional<std::int64_t>;
using Parse = Amount (*)(std::string_view);
using Set = std::function<bool(Quota&, std::string_view)>;  // False: the value makes no sense.
using Clear = std::function<void(Quota&)>;

Amount parse_size(std::string_view text) {
  const auto size = parse_bytes(text);
  return size ? Amount(size->count) : std::nullopt;
}

// 100, 1.5: whole seconds, so a thousandth of an hour is rounded to the nearest second.
Amount parse_hours(std::string_view text) {
  const auto milli = parse_milli(text);
  return milli ? Amount(*milli / 1000 * 3600 + (*milli % 1000 * 3600 + 500) / 1000) : std::nullopt;
}

struct Flag {
  QuotaFlag flag;
  Set set;
  Clear clear;
};

enum class Side { kLimit, kGuaranteed };
Amount& side_of(Share& share, Side side) {
  return side == Side::kLimit ? share.limit : share.guaranteed;
}

Flag share_flag(QuotaFlag flag, Share Quota::* share, Side side, Parse parse) {
  return {flag,
          [=](Quota& quota, std::string_view text) {
            const Amount amount = parse(text);
            if (amount) side_of(quota.*share, side) = amount;
            return amount.has_value();
          },
          [=](Quota& quota) { side_of(quota.*share, side).reset(); }};
}

Flag named_flag(QuotaFlag flag, std::map<std::string, Share> Quota::* shares, Side side, Parse parse) {
  return {flag,
          [=](Quota& quota, std::string_view text) {
            const auto equals = text.find('=');
            if (equals == std::string_view::npos || equals == 0) return false;
            const Amount amount = parse(text.substr(equals + 1));
            if (amount) side_of((quota.*shares)[std::string(text.substr(0, equals))], side) = amount;
            return amount.has_value();
          },
          [=](Quota& quota) {
            for (auto at = (quota.*shares).begin(); at != (quota.*shares).end();) {
              side_of(at->second, side).reset();
              at = at->second == Share{} ? (quota.*shares).erase(at) : std::next(at);
            }
          }};
}

Flag units_flag(QuotaFlag flag) {
  return {flag,
          [](Quota& quota, std::string_view text) {
            const auto equals = text.find('=');
            if (equals == std::string_view::npos || equals == 0) return false;
            const Amount amount = parse_whole(text.substr(equals + 1));
            if (amount) quota.units[std::string(text.substr(0, equals))] = *amount;
            return amount.has_value();
          },
          [](Quota& quota) { quota.units.clear(); }};
}

template <class Access, class ParseT>
Flag optional_flag(QuotaFlag flag, Access access, ParseT parse) {
  return {flag,
          [=](Quota& quota, std::string_view text) {
            auto value = parse(text);
            if (value) access(quota) = std::move(*value);
            return value.has_value();
          },
          [=](Quota& quota) { access(quota).reset(); }};
}

std::optional<bool> parse_yes_no(std::string_view text) {
  if (text == "yes" || text == "true" || text == "on") return true;
  if (text == "no" || text == "false" || text == "off") return false;
  return std::nullopt;
}

std::optional<std::vector<Isolation>> parse_isolation(std::string_view text) {
  std::vector<Isolation> classes;
  while (true) {
    const auto comma = text.find(',');
    const auto one = wire::from_name<Isolation>(text.substr(0, comma));
    if (!one || *one == Isolation::kDefault) return std::nullopt;
    if (std::find(classes.begin(), classes.end(), *one) == classes.end()) classes.push_back(*one);
    if (comma == std::string_view::npos) return classes;
    text.remove_prefix(comma + 1);
  }
}

Amount parse_up_to_100(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  const Amount value = parse_whole(text);
  return value && *value <= 100 ? value : std::nullopt;
}

std::vector<Flag> share_flags() {
  return {
      share_flag({"gpus", "4", "GPUs held at once, at most"}, &Quota::gpu_milli, Side::kLimit, parse_milli),
      share_flag({"guaranteed-gpus", "2", "GPUs kept for it; lent while idle"},
                 &Quota::gpu_milli,
                 Side::kGuaranteed,
                 parse_milli),
      share_flag({"gpu-instances", "8", "Device instances held at once"},
                 &Quota::gpu_instances,
                 Side::kLimit,
                 parse_whole),
      share_flag({"guaranteed-gpu-instances", "4", "Device instances kept for it"},
                 &Quota::gpu_instances,
                 Side::kGuaranteed,
                 parse_whole),
      share_flag(
          {"vram", "80GB", "Device memory held at once"}, &Quota::vram_bytes, Side::kLimit, parse_size),
      share_flag({"guaranteed-vram", "40GB", "Device memory kept for it"},
                 &Quota::vram_bytes,
                 Side::kGuaranteed,
                 parse_size),
      share_flag({"storage", "1TB", "Storage held at once"}, &Quota::storage_bytes, Side::kLimit, parse_size),
      share_flag({"guaranteed-storage", "100GB", "Storage kept for it"},
                 &Quota::storage_bytes,
                 Side::kGuaranteed,
                 parse_size),
      share_flag({"jobs", "10", "Jobs that have not ended"}, &Quota::jobs, Side::kLimit, parse_whole),
      share_flag(
          {"gpu-hours", "100", "GPU-hours in a period"}, &Quota::gpu_seconds, Side::kLimit, parse_hours),
      share_flag({"guaranteed-gpu-hours", "50", "GPU-hours kept for it in a period"},
                 &Quota::gpu_seconds,
                 Side::kGuaranteed,
                 parse_hours),
      named_flag({"device", "H100=2", "Devices of a model held at once"},
                 &Quota::devices,
                 Side::kLimit,
                 parse_milli),
      named_flag({"guaranteed-device", "H100=1", "Devices of a model kept for it"},
                 &Quota::devices,
                 Side::kGuaranteed,
                 parse_milli),
      named_flag({"sku", "small=4", "Shapes of a SKU held at once"}, &Quota::skus, Side::kLimit, parse_whole),
      units_flag(
          {"units", "frames=10000", "Units of work in a period: frames, seconds, steps, requests, tokens"}),
      named_flag({"guaranteed-sku", "small=2", "Shapes of a SKU kept for it"},
                 &Quota::skus,
                 Side::kGuaranteed,
                 parse_whole),
  };
}

template <class E>
Flag enum_flag(QuotaFlag flag, E Quota::* member) {
  return {flag,
          [=](Quota& quota, std::string_view text) {
            std::string name(text);
            std::replace(name.begin(), name.end(), '-', '_');
            const auto value = wire::from_name<E>(name);
            if (value) quota.*member = *value;
            return value.has_value();
          },
          [=](Quota& quota) { quota.*member = Quota{}.*member; }};
}

std::vector<Flag> other_flags() {
  const auto up_to_100 = parse_up_to_100;
  return {
      enum_flag({"period", "month", "day, week or month"}, &Quota::period),
      enum_flag({"over-quota", "on-demand", "on-demand or refuse"}, &Quota::over_quota),
      optional_flag(
          {"spend", "500", "Spend in a period"}, [](Quota& q) -> auto& { return q.spend; }, parse_money),
      optional_flag(
          {"max-time", "8h", "Time limit of a job"},
          [](Quota& q) -> auto& { return q.wall_time_max; },
          parse_duration),
      optional_flag(
          {"max-reservation", "12h", "Length of a reservation"},
          [](Quota& q) -> auto& { return q.reservation_length_max; },
          parse_duration),
      optional_flag(
          {"max-lead", "2w", "How far ahead a reservation may begin"},
          [](Quota& q) -> auto& { return q.reservation_lead_max; },
          parse_duration),
      optional_flag(
          {"max-priority", "60", "Highest priority, 0 to 100"},
          [](Quota& q) -> auto& { return q.priority_max; },
          up_to_100),
      optional_flag(
          {"isolation", "soft,hard", "Isolation classes allowed"},
          [](Quota& q) -> auto& { return q.isolation; },
          parse_isolation),
      optional_flag(
          {"burst", "yes", "May use bought capacity"},
          [](Quota& q) -> auto& { return q.may_burst; },
          parse_yes_no),
      optional_flag(
          {"buy", "yes", "May buy on the market"}, [](Quota& q) -> auto& { return q.may_buy; }, parse_yes_no),
      optional_flag(
          {"sell", "no", "May sell on the market"},
          [](Quota& q) -> auto& { return q.may_sell; },
          parse_yes_no),
      optional_flag(
          {"share", "yes", "Its soft slices may meet those of other tenants who agreed too"},
          [](Quota& q) -> auto& { return q.share_soft; },
          parse_yes_no),
      optional_flag(
          {"job-gpus", "2", "GPUs of one job"},
          [](Quota& q) -> auto& { return q.per_job.gpu_milli; },
          parse_milli),
      optional_flag(
          {"job-vram", "40GB", "Device memory of one job"},
          [](Quota& q) -> auto& { return q.per_job.vram_bytes; },
          parse_size),
      optional_flag(
          {"job-compute", "50%", "Compute share of a device that one job may use"},
          [](Quota& q) -> auto& { return q.per_job.compute_percent; },
          up_to_100),
      optional_flag(
          {"job-time", "4h", "Time of one job"},
          [](Quota& q) -> auto& { return q.per_job.time; },
          parse_duration),
      optional_flag(
          {"job-spend", "20", "Spend of one job"},
          [](Quota& q) -> auto& { return q.per_job.spend; },
          parse_money),
  };
}

const std::vector<Flag>& all_flags() {
  static const std::vector<Flag> kFlags = [] {
    std::vector<Flag> flags = share_flags();
    for (Flag& flag : other_flags()) flags.push_back(std::move(flag));
    return flags;
  }();
  return kFlags;
}

const Flag* find_flag(std::string_view name) {
  for (const Flag& flag : all_flags()) {
    if (flag.flag.name == name) return &flag;
  }
  return nullptr;
}

}  // namespace

std::span<const QuotaFlag> quota_flags() {
  static const std::vector<QuotaFlag> kFlags = [] {
    std::vector<QuotaFlag> flags;
    for (const Flag& flag : all_flags()) flags.push_back(flag.flag);
    return flags;
  }();
  return kFlags;
}

Result<void, std::string> set_quota_flag(Quota& quota, std::string_view flag, std::string_view value) {
  const Flag* const found = find_flag(flag);
  if (found == nullptr) return refuse("no quota flag '" + std::string(flag) + "'");
  if (found->set(quota, value)) return {};
  return refuse("--" + std::string(flag) + " takes a value such as " + std::string(found->flag.example) +
                ", not '" + std::string(value) + "'");
}

Result<void, std::string> clear_quota_flag(Quota& quota, std::string_view flag) {
  if (flag == "devices" || flag == "skus") {
    (flag == "devices" ? quota.devices : quota.skus).clear();
    return {};
  }
  if (constexpr std::string_view kUnits = "units="; flag.starts_with(kUnits)) {
    if (quota.units.erase(std::string(flag.substr(kUnits.size()))) == 1) return {};
    return refuse("there is no quota on " + std::string(flag));
  }
  for (const auto& [prefix, shares] : {std::pair{std::string_view("device="), &Quota::devices},
                                       std::pair{std::string_view("sku="), &Quota::skus}}) {
    if (!flag.starts_with(prefix)) continue;
    if ((quota.*shares).erase(std::string(flag.substr(prefix.size()))) == 1) return {};
    return refuse("there is no quota on " + std::string(flag));
  }
  if (const Flag* const found = find_flag(flag)) {
    found->clear(quota);
    return {};
  }
  std::vector<std::string_view> known;
  for (const QuotaFlag& entry : quota_flags()) known.push_back(entry.name);
  const std::string hint = wire::nearest_hint(flag, known);
  return refuse("--clear takes the name of a flag, not '" + std::string(flag) + "'" +
                (hint.empty() ? "" : "; " + hint));
}

}  // namespace tranche::cli
