// SPDX-License-Identifier: Apache-2.0
#pragma once
// Metering: from what a lease used to what it costs, exactly once, with the remainder carried from interval
// to interval so that parts add up to the whole.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "engine/contract.hpp"
#include "engine/ledger.hpp"
#include "engine/price.hpp"
#include "wire/isolation.hpp"
#include "wire/meter.hpp"
#include "wire/volume.hpp"
#include "wire/workload.hpp"

namespace tranche::engine {

struct Charge {
  Money amount{};
  std::int64_t remainder = 0;  // Below one micro-unit, in parts of kChargeUnit; goes into the next interval.
};
constexpr std::int64_t kGpuHour = 3'600'000'000'000;  // Thousandths times microseconds; or nanoseconds.
constexpr std::int64_t kChargeUnit = kGpuHour * 100;  // Shares by use are in percent.
constexpr Duration kMeterMost = std::chrono::hours(24 * 31);  // Of one interval; no clock runs longer.

// What an interval costs: `milli` thousandths of devices for `allocated`, busy for `used` nanoseconds. Never
// negative, whatever the clocks did.
[[nodiscard]] Charge charge(
    const PriceRule&, std::int64_t milli, Duration allocated, std::int64_t used, std::int64_t remainder);

struct MeterPlan {  // What a lease will be charged by.
  LeaseId lease{};
  JobId job{};
  PartyId party{};
  std::string model{};
  std::string shape{};
  std::string region{};
  wire::Isolation isolation = wire::Isolation::kSoft;
  wire::WorkloadKind workload = wire::WorkloadKind::kBatch;
  std::uint8_t priority = 50;
  bool on_demand = false;
  std::int64_t milli = 0;
  Duration ahead = std::chrono::hours(1);  // How much of the future is set aside at any time.
  std::int64_t memory_milli = 0;           // Thousandths of the devices' memory, rounded up.
  std::int64_t memory_bytes = 0;
  ContractId contract{};  // Set: where it runs was bought by it, so no price list counts.
};
BOOST_DESCRIBE_STRUCT(MeterPlan,
                      (),
                      (lease,
                       job,
                       party,
                       model,
                       shape,
                       region,
                       isolation,
                       workload,
                       priority,
                       on_demand,
                       milli,
                       ahead,
                       memory_milli,
                       memory_bytes,
                       contract))

struct Meter {
  LeaseId lease{};
  MeterPlan plan{};
  PartyId payer{};
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  Instant metered_to{};
  std::int64_t remainder = 0;
  std::map<std::string, std::int64_t> unit_remainders{};  // In millionths of a micro-unit.
  Money target{};                                         // What should be held.
  Money held{};
  Money charged{};
  bool exhausted = false;  // Nothing covers more: its lease must end.
  AccountId account{};     // What pays, from its opening to its end.
};
BOOST_DESCRIBE_STRUCT(Meter,
                      (),
                      (lease,
                       plan,
                       payer,
                       epoch,
                       sequence,
                       metered_to,
                       remainder,
                       unit_remainders,
                       target,
                       held,
                       charged,
                       exhausted,
                       account))

// What of the slice a rule charges for, in thousandths of a device.
[[nodiscard]] std::int64_t charged_milli(const PriceRule&, const MeterPlan&);

struct OpenMeter {  // These three come from the platform itself.
  MeterPlan plan{};
};
struct MeterOpened {
  PartyId party{};
  MeterPlan plan{};
  PartyId payer{};
  Money held{};
  AccountId account{};  // Zero: the payer's credit.
};
BOOST_DESCRIBE_STRUCT(MeterOpened, (), (party, plan, payer, held, account))

struct RecordUsage {
  wire::MeterRecord record{};
};
struct Charged {
  PartyId party{};
  LeaseId lease{};
  JobId job{};
  DeviceId device{};
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  Instant from{};
  Instant to{};
  std::int64_t allocated = 0;  // Thousandths times microseconds.
  std::int64_t used = 0;       // Nanoseconds.
  std::int64_t vram_byte_seconds = 0;
  std::map<std::string, std::int64_t> units{};
  std::string rule{};  // The last price that was applied.
  Money amount{};
  std::int64_t remainder = 0;
  std::map<std::string, std::int64_t> unit_remainders{};
  Money held{};  // Afterwards.
  bool exhausted = false;
  Money by_allocation{};  // Of the amount: what a smaller slice would have made less.
  Money bought{};         // Its part of what was paid on the exchange for where it ran; moves no money.
};
BOOST_DESCRIBE_STRUCT(Charged,
                      (),
                      (party,
                       lease,
                       job,
                       device,
                       epoch,
                       sequence,
                       from,
                       to,
                       allocated,
                       used,
                       vram_byte_seconds,
                       units,
                       rule,
                       amount,
                       remainder,
                       unit_remainders,
                       held,
                       exhausted,
                       by_allocation,
                       bought))

struct CloseMeter {
  LeaseId lease{};
  Instant fault{};  // Set: a fault of the platform at that time; what was charged since is given back.
};
struct MeterClosed {
  PartyId party{};
  LeaseId lease{};
  Money released{};
  Money credited{};
};
BOOST_DESCRIBE_STRUCT(MeterClosed, (), (party, lease, released, credited))

enum class CostSource : std::uint8_t {
  kUse,  // A job, a volume, or what was bought on the exchange.
  kFee,  // What the platform keeps of a sale.
};
BOOST_DESCRIBE_ENUM(CostSource, kUse, kFee)

// Costs as reports need them: a day, who, and which job or volume. Neither: of the exchange. And who pays,
// because that may change in the middle of a month.
struct CostKey {
  Instant day{};
  PartyId party{};
  JobId job{};
  VolumeId volume{};
  PartyId payer{};
  CostSource source = CostSource::kUse;
  auto operator<=>(const CostKey&) const = default;
  [[nodiscard]] bool of_exchange() const {
    return job == JobId{} && volume == VolumeId{} && source == CostSource::kUse;
  }
};
BOOST_DESCRIBE_STRUCT(CostKey, (), (day, party, job, volume, payer, source))

struct CostLine {
  CostKey key{};
  std::string model{};
  wire::WorkloadKind workload = wire::WorkloadKind::kBatch;
  Money amount{};
  Money credited{};
  std::int64_t allocated = 0;  // Thousandths times milliseconds.
  std::int64_t used = 0;       // Microseconds of a device, which is the same unit.
  std::map<std::string, std::int64_t> units{};
  std::map<std::string, std::string> labels{};  // Of the job.
  Money by_allocation{};                        // Of the amount.
  std::uint32_t peak_milli = 0;  // Of the slice: the most that an interval used of its compute or memory.
  // What was bought on the exchange moves to the jobs that ran in it: theirs is what they held of it, and
  // the exchange's what was delivered and nobody held. Money and time, as `amount` and `allocated`; all
  // lines together hold what was paid and what was delivered.
  Money bought{};
  std::int64_t bought_time = 0;
  // Of the exchange: what the delivered time was worth. Its purchases count as they are delivered; those of
  // before, which say so here, counted when they were made.
  Money delivered{};
  bool as_delivered = false;
  std::int64_t kept = 0;  // Of a volume: MiB times seconds.
};
BOOST_DESCRIBE_STRUCT(CostLine,
                      (),
                      (key,
                       model,
                       workload,
                       amount,
                       credited,
                       allocated,
                       used,
                       units,
                       labels,
                       by_allocation,
                       peak_milli,
                       bought,
                       bought_time,
                       delivered,
                       as_delivered,
                       kept))

}  // namespace tranche::engine
