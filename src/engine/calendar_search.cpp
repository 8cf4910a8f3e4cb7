// SPDX-License-Identifier: Apache-2.0
// Where and when a window fits.
#include <algorithm>

#include "engine/calendar.hpp"
#include "engine/market_claims.hpp"
#include "engine/state.hpp"

namespace tranche::engine {
namespace {

// Work without a time limit has no end to wait for: a booking made this long ahead may ask it to go.
constexpr Duration kNotice = std::chrono::hours(1);
constexpr std::size_t kStartsTried = 128;
constexpr std::size_t kSuggestions = 3;

bool lists(const Node& node, std::string_view label, std::string_view wanted) {
  const std::string* list = node.labels.find(label);
  if (list == nullptr) return false;
  for (std::size_t at = 0; at <= list->size();) {
    const std::size_t end = std::min(list->find(',', at), list->size());
    if (std::string_view(*list).substr(at, end - at) == wanted) return true;
    at = end + 1;
  }
  return false;
}

// What a node offers: itself, and what its labels `layers`, `runtime` and `volumes` list.
bool offers(const Node& node, const WantedEnvironment& wanted) {
  if (wanted.layer == wire::Layer::kSlurm && !lists(node, "layers", "slurm")) return false;
  if (wanted.layer == wire::Layer::kKubernetes && !lists(node, "layers", "kubernetes")) return false;
  if (!wanted.runtime.empty() && !lists(node, "runtime", wanted.runtime)) return false;
  return std::all_of(wanted.volumes.begin(), wanted.volumes.end(), [&](const std::string& volume) {
    return lists(node, "volumes", volume);
  });
}

bool has_driver(const Device& device, const std::string& wanted) {
  const std::string& version = device.facts.driver_version;
  if (wanted.empty() || version == wanted) return true;
  return version.starts_with(wanted) && version[wanted.size()] == '.';
}

struct Candidate {
  std::int64_t idle_milli = 0;  // At the busiest moment; the least wins.
  DeviceId device{};
  Slice slice{};
  auto operator<=>(const Candidate& other) const {
    return std::tie(idle_milli, device) <=> std::tie(other.idle_milli, other.device);
  }
  bool operator==(const Candidate& other) const { return device == other.device; }
};

class Search {
 public:
  Search(const State& state, Instant now, const WindowAsk& wanted)
      : state_(state), now_(now), wanted_(wanted), capacity_(*state.index.capacity) {
    shape_ = capacity_.shape_of(wanted.ask, wanted.trust_group);
  }

  std::optional<std::vector<BookedPlace>> run() {
    if (!shape_ || shape_->devices == 0) return std::nullopt;
    std::vector<BookedPlace> places;
    const std::uint32_t members = std::max(wanted_.ask.nodes, 1U);
    for (std::uint32_t member = 0; member < members; ++member) {
      auto place = best_place();
      if (!place) return std::nullopt;
      for (const Slice& slice : place->slices) taken_.insert(slice.device);
      places.push_back(std::move(*place));
    }
    return places;
  }

  // Instants at which something on a device that could be meant ends or begins.
  void starts(std::set<Instant>& out, Duration length) const {
    if (!shape_) return;
    for_each_group([&](const Node&, policy::NodeIndex index) {
      for (const DeviceId id : capacity_.devices_of(index)) {
        for (const CalendarClaim& claim : state_.index.calendar->claims_on(id)) {
          out.insert(claim.to);
          out.insert(claim.from - length);
        }
        for (const CalendarClaim& offer : listed_on(state_, id)) {
          out.insert(offer.to);
          out.insert(offer.from - length);
        }
        for (const PassingUse& use : running_on(state_, state_.devices.at(id), now_ + kNotice))
          out.insert(use.to);
      }
    });
  }

  [[nodiscard]] Offered offered() const {
    if (!shape_) return Offered::kNoShape;
    bool shape = false;
    bool environment = false;
    for_each_group([&](const Node& node, policy::NodeIndex index) {
      std::int32_t devices = 0;
      std::int32_t with_driver = 0;
      for (const DeviceId id : capacity_.devices_of(index)) {
        const Device& device = state_.devices.at(id);
        if (!fits_empty(device)) continue;
        ++devices;
        with_driver += has_driver(device, wanted_.environment.driver);
      }
      shape = shape || devices >= shape_->devices;
      environment = environment || (with_driver >= shape_->devices && offers(node, wanted_.environment));
    });
    if (!shape) return Offered::kNoShape;
    return environment ? Offered::kYes : Offered::kNoEnvironment;
  }

 private:
  template <class Visit>
  void for_each_group(Visit visit) const {
    for (const auto& [id, node] : state_.nodes) {
      if (!takes_work(node)) continue;
      for (const policy::NodeIndex index : capacity_.groups_of(id))
        if (capacity_.fleet().type_allows(capacity_.fleet().spec(index), *shape_)) visit(node, index);
    }
  }

  [[nodiscard]] bool fits_empty(const Device& device) const {
    const policy::NodeSpec spec = capacity_.fleet().spec(capacity_.group_of(device.id));
    const policy::DeviceState empty{.vram_left_mib = spec.vram_mib};
    return is_in_service(device.state) && capacity_.fleet().device_fits(spec, empty, *shape_);
  }

  std::optional<BookedPlace> best_place() const {
    std::optional<BookedPlace> best;
    std::int64_t least = 0;
    for_each_group([&](const Node& node, policy::NodeIndex index) {
      if (!offers(node, wanted_.environment)) return;
      std::vector<Candidate> candidates;
      for (const DeviceId id : capacity_.devices_of(index))
        if (auto one = on_device(index, state_.devices.at(id))) candidates.push_back(*one);
      const auto needed = static_cast<std::size_t>(shape_->devices);
      if (candidates.size() < needed) return;
      std::sort(candidates.begin(), candidates.end());
      candidates.resize(needed);
      std::int64_t idle = 0;
      for (const Candidate& one : candidates) idle += one.idle_milli;
      if (best && idle >= least) return;
      least = idle;
      best = BookedPlace{.node = node.id};
      for (const Candidate& one : candidates) best->slices.push_back(one.slice);
    });
    return best;
  }

  // Everything on the device at some instant of the window, each with the time it begins to count.
  std::optional<Candidate> on_device(policy::NodeIndex index, const Device& device) const {
    if (wanted_.only != DeviceId{} && wanted_.only != device.id) return std::nullopt;
    if (taken_.contains(device.id) || !fits_empty(device) || !has_driver(device, wanted_.environment.driver))
      return std::nullopt;
    std::vector<const CalendarClaim*> claims;
    for (const CalendarClaim& claim : state_.index.calendar->claims_on(device.id)) {
      if (claim.claim != wanted_.instead_of && claim.from < wanted_.span.to && wanted_.span.from < claim.to)
        claims.push_back(&claim);
    }
    if (!wanted_.beside_offers) {
      for (const CalendarClaim& offer : listed_on(state_, device.id))
        if (offer.from < wanted_.span.to && wanted_.span.from < offer.to) claims.push_back(&offer);
    }
    const auto running = running_on(state_, device, now_ + kNotice);
    const auto slice = slice_on(index, device, claims, running);
    if (!slice) return std::nullopt;
    const DeviceUse own = use_of(device, wanted_.ask, wanted_.trust_group, *slice);
    std::int64_t most = 0;
    const auto legal_at = [&](Instant when) {
      std::vector<DeviceUse> uses{own};
      for (const CalendarClaim* claim : claims)
        if (claim->at(when)) uses.push_back(claim->use);
      for (const PassingUse& use : running)
        if (use.to > when) uses.push_back(use.use);
      std::int64_t milli = 0;
      for (const DeviceUse& use : uses) milli += use.milli;
      most = std::max(most, milli);
      return is_legal(uses, device.facts.vram.count);
    };
    // What is on a device only grows where a claim begins.
    if (!legal_at(wanted_.span.from)) return std::nullopt;
    for (const CalendarClaim* claim : claims)
      if (claim->from > wanted_.span.from && !legal_at(claim->from)) return std::nullopt;
    return Candidate{.idle_milli = policy::kDeviceMilli - most, .device = device.id, .slice = *slice};
  }

  [[nodiscard]] std::optional<Slice> slice_on(policy::NodeIndex index,
                                              const Device& device,
                                              const std::vector<const CalendarClaim*>& claims,
                                              const std::vector<PassingUse>& running) const {
    Slice slice{.device = device.id, .milli = static_cast<std::uint16_t>(shape_->milli)};
    if (shape_->profile == 0) {
      slice.vram = shape_->shares() ? std::int64_t{shape_->vram_mib} << 20U : device.facts.vram.count;
      return slice;
    }
    const policy::Geometry& table = capacity_.fleet().geometry(capacity_.fleet().spec(index));
    const policy::PartitionProfile* profile = table.find(shape_->profile);
    std::uint16_t used = 0;
    for (const CalendarClaim* claim : claims) used = static_cast<std::uint16_t>(used | claim->use.slots);
    for (const PassingUse& use : running)
      if (use.to > wanted_.span.from) used = static_cast<std::uint16_t>(used | use.use.slots);
    const auto start = profile == nullptr ? std::nullopt : table.best_start(*profile, used);
    if (!start) return std::nullopt;
    slice.milli = static_cast<std::uint16_t>(profile->milli);
    slice.vram = std::int64_t{profile->vram_mib} << 20U;
    slice.start = static_cast<std::uint8_t>(*start);
    return slice;
  }

  const State& state_;
  Instant now_;
  const WindowAsk& wanted_;
  const Capacity& capacity_;
  std::optional<policy::Shape> shape_;
  std::set<DeviceId> taken_;
};

Duration distance(Instant a, Instant b) {
  return a < b ? b - a : a - b;
}

}  // namespace

std::optional<std::vector<BookedPlace>> find_places(const State& state,
                                                    Instant now,
                                                    const WindowAsk& wanted) {
  return Search(state, now, wanted).run();
}

Offered is_offered(const State& state, const WindowAsk& wanted) {
  return Search(state, state.now, wanted).offered();
}

std::vector<TimeSpan> nearest_windows(const State& state, Instant now, const WindowAsk& wanted) {
  const Duration length = wanted.span.to - wanted.span.from;
  std::set<Instant> edges;
  Search(state, now, wanted).starts(edges, length);
  std::vector<Instant> starts;
  for (const Instant at : edges)
    if (at >= now) starts.push_back(std::chrono::ceil<std::chrono::seconds>(at));
  std::sort(starts.begin(), starts.end(), [&](Instant a, Instant b) {
    return std::tuple(distance(a, wanted.span.from), a) < std::tuple(distance(b, wanted.span.from), b);
  });
  if (starts.size() > kStartsTried) starts.resize(kStartsTried);
  std::vector<TimeSpan> found;
  for (const Instant from : starts) {
    if (found.size() == kSuggestions) break;
    const WindowAsk shifted{wanted.ask,
                            wanted.trust_group,
                            wanted.environment,
                            {from, from + length},
                            wanted.instead_of,
                            wanted.only,
                            wanted.beside_offers};
    if (find_places(state, now, shifted)) found.push_back(shifted.span);
  }
  return found;
}

}  // namespace tranche::engine
