// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job asks for, resolved from its job file to numbers: all that admission and placement look at.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/boxed.hpp"
#include "wire/fields.hpp"
#include "wire/gpu_catalog.hpp"
#include "wire/isolation.hpp"
#include "wire/start_window.hpp"
#include "wire/workload.hpp"

namespace tranche::wire {

// Which devices will do, where one model does not say it.
struct DeviceWish {
  GpuVendor vendor = GpuVendor::kAny;
  std::vector<std::string> models{};  // Catalogue names; empty: any.
  bool in_order = false;              // The first that has room.
  std::int64_t memory_min = 0;        // Of the whole device.
  std::int64_t memory_max = 0;        // Zero: no upper bound.
  bool operator==(const DeviceWish&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceWish, (), (vendor, models, in_order, memory_min, memory_max))

// Bounds of a slice that may be made smaller and larger while it runs.
struct SliceRange {
  std::uint32_t milli_min = 0;
  std::uint32_t milli_max = 0;
  std::int64_t vram_min = 0;
  std::int64_t vram_max = 0;
  bool operator==(const SliceRange&) const = default;
};
BOOST_DESCRIBE_STRUCT(SliceRange, (), (milli_min, milli_max, vram_min, vram_max))

enum class Topology : std::uint8_t { kAny, kNode, kRack, kSite };  // How close the parts of a gang must be.
BOOST_DESCRIBE_ENUM(Topology, kAny, kNode, kRack, kSite)

struct Ask {
  WorkloadKind kind = WorkloadKind::kBatch;
  Isolation isolation = Isolation::kSoft;
  std::uint8_t priority = 50;
  bool preemptible = false;
  std::uint32_t instances = 0;   // Device instances over all nodes; zero: a job without a GPU.
  std::uint32_t milli_each = 0;  // Compute share of each, in thousandths of a device.
  std::int64_t vram_each = 0;    // Bytes on each.
  std::string model{};           // Catalogue name; empty: any.
  std::string sku{};
  std::int64_t model_millions = 0;  // Parameters of the workload's model, in millions; zero: not said.
  std::int64_t storage_bytes = 0;
  Duration time{};  // Wall time limit; zero: none asked.
  Money spend{};    // The most it may cost; zero: none asked.
  std::map<std::string, std::string> labels{};
  std::string gpus{};             // The GPU string as it was asked for, for people.
  std::uint32_t nodes = 1;        // Members of a gang, each on a node: all start, or none.
  std::string profile{};          // Of a hardware partition.
  bool simulated = false;         // Asked for simulated capacity; nothing else ever goes there.
  std::uint32_t cpu_milli = 0;    // Of each member; zero: whatever there is.
  std::int64_t memory_bytes = 0;  // Host memory of each member.
  std::uint32_t retries = 0;      // After errors of its own; faults of the platform are retried anyway.
  Duration retry_backoff{};
  std::vector<std::string> volumes{};  // Names, as its tenant knows them.
  std::optional<Instant> deadline{};   // Should have ended by then.
  Boxed<StartWindow> window{};         // Starts only inside it.
  bool cheapest = false;               // Starts when the price list is lowest, as far as its deadline allows.
  bool gang_network = false;           // Its members, on several nodes, talk to each other.
  std::uint32_t nodes_min = 0;         // Of an elastic gang, whose `nodes` are as many as it has now.
  std::uint32_t nodes_max = 0;         // Zero: it has as many as it asked for, always.
  Boxed<DeviceWish> wish{};
  Boxed<SliceRange> range{};  // milli_each and vram_each are what it has now.
  Topology topology = Topology::kAny;
  bool whole_node = false;  // Nobody else's work on its nodes.
  bool never_paused = false;
  bool may_burst = false;  // Capacity that has not joined yet may be meant.
  Money price_per_hour{};  // The most that an hour of one device may cost; zero: no bound.
  Duration idle{};         // Ends after so long without device use; zero: never.

  [[nodiscard]] std::int64_t gpu_milli() const { return static_cast<std::int64_t>(instances) * milli_each; }
  [[nodiscard]] std::int64_t vram_bytes() const { return static_cast<std::int64_t>(instances) * vram_each; }
  // Milli-GPU times seconds, in whole GPU-seconds rounded up; zero while it has no time limit.
  [[nodiscard]] std::int64_t gpu_seconds() const {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
    return static_cast<std::int64_t>((static_cast<Int128>(gpu_milli()) * seconds + 999) / 1000);
  }
  [[nodiscard]] bool is_elastic() const { return nodes_max > nodes_min; }
  // Members beyond the fewest that it can go on with.
  [[nodiscard]] std::uint32_t surplus() const { return is_elastic() ? nodes - nodes_min : 0; }
  [[nodiscard]] Ask resized(std::uint32_t members) const {
    Ask other = *this;
    other.instances = instances / nodes * members;
    other.nodes = members;
    return other;
  }
  [[nodiscard]] bool is_smallest() const {
    return !range || (milli_each <= range->milli_min && vram_each <= range->vram_min);
  }
  [[nodiscard]] bool is_largest() const {
    return !range || (milli_each >= range->milli_max && vram_each >= range->vram_max);
  }
  [[nodiscard]] Ask resliced(std::uint32_t milli, std::int64_t vram) const {
    Ask other = *this;
    other.milli_each = milli;
    other.vram_each = vram;
    return other;
  }
  [[nodiscard]] Ask smallest() const { return range ? resliced(range->milli_min, range->vram_min) : *this; }
  bool operator==(const Ask&) const = default;
};
BOOST_DESCRIBE_STRUCT(Ask,
                      (),
                      (kind,
                       isolation,
                       priority,
                       preemptible,
                       instances,
                       milli_each,
                       vram_each,
                       model,
                       sku,
                       model_millions,
                       storage_bytes,
                       time,
                       spend,
                       labels,
                       gpus,
                       nodes,
                       profile,
                       simulated,
                       cpu_milli,
                       memory_bytes,
                       retries,
                       retry_backoff,
                       volumes,
                       deadline,
                       window,
                       cheapest,
                       gang_network,
                       nodes_min,
                       nodes_max,
                       wish,
                       range,
                       topology,
                       whole_node,
                       never_paused,
                       may_burst,
                       price_per_hour,
                       idle))
template <>
struct Fields<Ask> {
  static constexpr std::array<std::string_view, 1> kOncePlain{"deadline"};
};

}  // namespace tranche::wire
