// SPDX-License-Identifier: Apache-2.0
// A quota for people: guaranteed, used and limit of everything that a node says or holds.
#include "base/text.hpp"
#include "cli/human.hpp"
#include "cli/quota_flags.hpp"
#include "wire/fields.hpp"

namespace tranche::cli {
namespace {

using wire::Quota;
using Share = wire::QuotaShare;
using wire::Usage;

using Unit = std::string (*)(std::int64_t);

std::string plain(std::int64_t value) {
  return std::to_string(value);
}
std::string exact_bytes(std::int64_t value) {
  return text(Bytes{value});
}

class Rows {
 public:
  void share(std::string what, const Share& share, std::int64_t used, Unit unit) {
    if (share == Share{} && used == 0) return;
    const auto side = [&](const std::optional<std::int64_t>& value) { return value ? unit(*value) : "-"; };
    rows_.push_back({std::move(what), side(share.guaranteed), unit(used), side(share.limit)});
  }
  void limit(std::string what, std::string value) {
    rows_.push_back({std::move(what), "-", "-", std::move(value)});
  }
  template <class T, class Print>
  void limit_if(std::string what, const std::optional<T>& value, Print print) {
    if (value) limit(std::move(what), print(*value));
  }
  void named(const std::string& what,
             const std::map<std::string, Share>& shares,
             const std::map<std::string, std::int64_t>& used,
             Unit unit) {
    std::map<std::string, std::int64_t> names = used;
    for (const auto& [name, share] : shares) names.try_emplace(name, 0);
    for (const auto& [name, amount] : names) {
      const auto found = shares.find(name);
      share(what + name, found == shares.end() ? Share{} : found->second, amount, unit);
    }
  }
  std::vector<QuotaRow> take() { return std::move(rows_); }

 private:
  std::vector<QuotaRow> rows_;
};

std::string isolation_text(const std::vector<wire::Isolation>& classes) {
  std::string out;
  for (const wire::Isolation one : classes) {
    if (!out.empty()) out += ',';
    out += wire::name_of(one);
  }
  return out;
}

void add_limits(Rows& rows, const Quota& quota) {
  const auto duration = [](Duration length) { return text(length); };
  const auto yes_no = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  const auto money = [](Money amount) { return text(amount); };
  rows.limit_if("time of a job", quota.wall_time_max, duration);
  rows.limit_if("reservation length", quota.reservation_length_max, duration);
  rows.limit_if("reservation lead", quota.reservation_lead_max, duration);
  rows.limit_if("priority", quota.priority_max, plain);
  rows.limit_if("isolation", quota.isolation, isolation_text);
  rows.limit_if("may burst", quota.may_burst, yes_no);
  rows.limit_if("may buy", quota.may_buy, yes_no);
  rows.limit_if("may sell", quota.may_sell, yes_no);
  rows.limit_if("shares devices", quota.share_soft, yes_no);
  rows.limit_if("GPUs of one job", quota.per_job.gpu_milli, gpus_text);
  rows.limit_if("VRAM of one job", quota.per_job.vram_bytes, exact_bytes);
  rows.limit_if("compute of one job", quota.per_job.compute_percent, [](std::int64_t share) {
    return std::to_string(share) + "%";
  });
  rows.limit_if("time of one job", quota.per_job.time, duration);
  rows.limit_if("spend of one job", quota.per_job.spend, money);
  if (quota.over_quota == wire::OverQuota::kOnDemand) rows.limit("over quota", "on demand");
}

}  // namespace

std::vector<QuotaRow> quota_rows(const wire::QuotaView& view) {
  const Quota& quota = view.quota;
  const Usage& usage = view.usage;
  const std::string period = " a " + std::string(wire::name_of(quota.period));
  Rows rows;
  rows.share("GPUs", quota.gpu_milli, usage.gpu_milli, gpus_text);
  rows.share("GPU instances", quota.gpu_instances, usage.gpu_instances, plain);
  rows.share("VRAM", quota.vram_bytes, usage.vram_bytes, exact_bytes);
  rows.share("storage", quota.storage_bytes, usage.storage_bytes, exact_bytes);
  rows.share("jobs", quota.jobs, usage.jobs, plain);
  rows.named("device ", quota.devices, usage.devices, gpus_text);
  rows.named("SKU ", quota.skus, usage.skus, plain);
  rows.share("GPU-hours" + period,
             quota.gpu_seconds,
             usage.gpu_seconds_reserved + usage.gpu_seconds_used,
             hours_text);
  if (quota.spend || usage.spend_reserved != Money{} || usage.spent != Money{}) {
    Share spend{.guaranteed = std::nullopt, .limit = std::nullopt};
    if (quota.spend) spend.limit = quota.spend->micros;
    rows.share(
        "spend" + period, spend, usage.spend_reserved.micros + usage.spent.micros, [](std::int64_t micros) {
          return text(Money{micros});
        });
  }
  for (const auto& [unit, use] : view.units) {
    Share share{.guaranteed = std::nullopt, .limit = use.limit};
    rows.share(unit + period, share, use.done + use.promised, plain);
  }
  add_limits(rows, quota);
  return rows.take();
}

}  // namespace tranche::cli
