// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every claim on every device over time. What is booked here, and nowhere else, can be given out: a claim is
// only added where it fits beside all others at every instant of its window.
//
// A memo like Capacity: follows from the state alone, and is outside its hash.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/ids.hpp"
#include "engine/booking.hpp"
#include "engine/capacity.hpp"
#include "engine/node.hpp"
#include "policy/placement_shape.hpp"

namespace tranche::engine {

struct State;
struct Job;

enum class UseMode : std::uint8_t { kWhole, kShared, kPartition };

// What a slice takes of its device.
struct DeviceUse {
  UseMode mode = UseMode::kWhole;
  std::int32_t milli = 0;
  std::int64_t vram = 0;
  std::uint32_t trust_group = 0;
  std::uint16_t slots = 0;  // Of a partition.
};
[[nodiscard]] DeviceUse use_of(const Device&, const wire::Ask&, std::uint32_t trust_group, const Slice&);

// Whether all of these can be on one device at the same time.
[[nodiscard]] bool is_legal(std::span<const DeviceUse> uses, std::int64_t device_vram);

struct CalendarClaim {
  Instant from{};
  Instant to{};
  ClaimId claim{};
  std::uint32_t window = 0;
  DeviceUse use{};
  [[nodiscard]] bool at(Instant when) const { return from <= when && when < to; }
};

// When something about a window has to be done next.
struct Edge {
  Instant at{};
  ClaimId claim{};
  std::uint32_t window = 0;
  auto operator<=>(const Edge&) const = default;
};

class Calendar {
 public:
  void add(const State&, const Booking&, std::uint32_t window);
  void remove(const Booking&, std::uint32_t window);
  void opened(const Booking&, std::uint32_t window);  // Its next edge is its end.
  [[nodiscard]] ClaimId claim_of(ContractId) const;   // Zero: it has none.

  // Offers on the exchange that are not sold, as market_claims.hpp finds them; kept until something changes.
  using Listed = std::vector<CalendarClaim>;
  [[nodiscard]] const Listed* listed(DeviceId device) const {
    const auto found = listed_.find(device);
    return found == listed_.end() ? nullptr : &found->second;
  }
  const Listed& keep_listed(DeviceId device, Listed listed) {
    return listed_.insert_or_assign(device, std::move(listed)).first->second;
  }
  void listing_changed(DeviceId device) { listed_.erase(device); }

  [[nodiscard]] const std::vector<CalendarClaim>& claims_on(DeviceId) const;
  [[nodiscard]] const std::set<Edge>& edges() const { return edges_; }
  [[nodiscard]] const std::map<DeviceId, std::vector<CalendarClaim>>& devices() const { return claims_; }
  [[nodiscard]] const std::set<std::pair<ClaimId, std::uint32_t>>& open() const { return open_; }
  [[nodiscard]] bool empty() const { return edges_.empty(); }

  // When the pass has to look at windows again.
  [[nodiscard]] bool due(Instant now) const { return !edges_.empty() && wake_ <= now; }
  void wake_at(Instant at) { wake_ = at; }
  // When that is, for those who run ahead; the end of time when no window is left.
  [[nodiscard]] Instant wakes(Instant now) const {
    return edges_.empty() ? Instant::max() : std::max(wake_, now);
  }
  void touched(DeviceId device) {  // Something changed there that windows may mind.
    if (claims_.contains(device)) wake_ = Instant{};
  }

 private:
  std::map<DeviceId, std::vector<CalendarClaim>> claims_;  // In order of their start.
  std::set<Edge> edges_;
  std::set<std::pair<ClaimId, std::uint32_t>> open_;
  std::map<ContractId, ClaimId> by_contract_;
  std::map<DeviceId, Listed> listed_;
  Instant wake_{};
};

// A claim that is not in the calendar yet, or only in it as a lease.
struct PassingUse {
  DeviceUse use{};
  Instant to{};
};

// Work that runs there now, and until when nobody may take its place; without a time limit, until then.
[[nodiscard]] std::vector<PassingUse> running_on(const State&, const Device&, Instant endless_until);

struct WindowAsk {
  const wire::Ask& ask;
  std::uint32_t trust_group = 0;
  const WantedEnvironment& environment;
  TimeSpan span{};
  ClaimId instead_of{};        // Its own claims do not stand in its way.
  DeviceId only{};             // Zero: wherever it fits.
  bool beside_offers = false;  // What is offered on the exchange and not sold does not stand in its way.
  std::optional<std::uint8_t> start{};                  // Of a partition: nowhere else.
  const std::vector<CalendarClaim>* besides = nullptr;  // On that device: what the same decision put there.
};
// Where the window could be, on the tightest devices; nothing when it fits nowhere.
[[nodiscard]] std::optional<std::vector<BookedPlace>> find_places(const State&,
                                                                  Instant now,
                                                                  const WindowAsk&);
// Windows of the same length that fit, nearest first.
[[nodiscard]] std::vector<TimeSpan> nearest_windows(const State&, Instant now, const WindowAsk&);

// Whether any device connected offers the environment and the shape, whatever is booked.
enum class Offered : std::uint8_t { kYes, kNoShape, kNoEnvironment };
[[nodiscard]] Offered is_offered(const State&, const WindowAsk&);

// What ordinary work of this shape must leave alone, because it could not be gone when somebody's window
// opens. `placed` is what the same pass has put there.
[[nodiscard]] std::vector<Barred> barred_devices(const State&,
                                                 Instant now,
                                                 const Job&,
                                                 const policy::Shape&,
                                                 const std::multimap<DeviceId, PassingUse>& placed);

// Nodes that maintenance keeps free at some time from now until then.
[[nodiscard]] std::set<NodeId> kept_free(const State&, Instant now, Instant until);

}  // namespace tranche::engine
