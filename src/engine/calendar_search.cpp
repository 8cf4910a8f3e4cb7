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
constexpr std::size_t kStartsTried = 128;  // For a gang.
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
      : state_(state), now_(now), wanted_(wanted), span_(wanted.span), capacity_(*state.index.capacity) {
    shape_ = capacity_.shape_of(wanted.ask, wanted.trust_group);
  }

  std::optional<std::vector<BookedPlace>> run() {
    if (!shape_ || shape_->devices == 0) return std::nullopt;
    taken_.clear();
    std::vector<BookedPlace> places;
    for (std::uint32_t member = 0; member < members(); ++member) {
      auto place = best_place();
      if (!place) return std::nullopt;
      for (const Slice& slice : place->slices) taken_.insert(slice.device);
      places.push_back(std::move(*place));
    }
    return places;
  }

  // Windows of the same length that fit, nearest first.
  std::vector<TimeSpan> nearest() {
    if (!shape_ || shape_->devices == 0) return {};
    Nearest found;
    if (members() > 1) {
      std::set<Instant> edges;
      for_each_group([&](const Node&, policy::NodeIndex index) { add_edges(index, edges); });
      std::vector<Instant> starts = by_distance(edges);
      // However busy the days between: after the last of all claims there is room.
      if (starts.size() > kStartsTried) starts.erase(starts.begin() + kStartsTried, starts.end() - 1);
      try_starts(starts, found, [&] { return run().has_value(); });
    } else {
      // What fits on a group of devices begins or ends at an edge of that very group.
      for_each_group([&](const Node& node, policy::NodeIndex index) {
        if (!offers(node, wanted_.environment)) return;
        std::set<Instant> edges;
        add_edges(index, edges);
        try_starts(by_distance(edges), found, [&] { return place_in(node, index).has_value(); });
      });
    }
    std::vector<TimeSpan> spans;
    for (const auto& [far, from] : found) spans.push_back({from, from + length()});
    return spans;
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
  using Nearest = std::set<std::pair<Duration, Instant>>;  // How far from what was wanted, and where.

  [[nodiscard]] std::uint32_t members() const { return std::max(wanted_.ask.nodes, 1U); }
  [[nodiscard]] Duration length() const { return wanted_.span.to - wanted_.span.from; }
  [[nodiscard]] Duration distance(Instant from) const {
    return from < wanted_.span.from ? wanted_.span.from - from : from - wanted_.span.from;
  }

  // Where a window could begin because something ends, or end because something begins.
  void add_edges(policy::NodeIndex index, std::set<Instant>& edges) const {
    using std::chrono::seconds;
    const auto after = [&](Instant at) { edges.insert(std::chrono::ceil<seconds>(at)); };
    const auto around = [&](const CalendarClaim& claim) {
      after(claim.to);
      edges.insert(std::chrono::floor<seconds>(claim.from - length()));
    };
    for (const DeviceId id : capacity_.devices_of(index)) {
      for (const CalendarClaim& claim : state_.index.calendar->claims_on(id)) around(claim);
      for (const CalendarClaim& offer : listed_on(state_, id)) around(offer);
      for (const PassingUse& use : running_on(state_, state_.devices.at(id), now_ + kNotice)) after(use.to);
    }
  }
  [[nodiscard]] std::vector<Instant> by_distance(const std::set<Instant>& edges) const {
    std::vector<Instant> starts(edges.lower_bound(now_), edges.end());
    std::stable_sort(
        starts.begin(), starts.end(), [&](Instant a, Instant b) { return distance(a) < distance(b); });
    return starts;
  }
  template <class Fits>
  void try_starts(const std::vector<Instant>& starts, Nearest& found, Fits fits) {
    for (const Instant from : starts) {
      const std::pair key(distance(from), from);
      if (found.size() == kSuggestions && key >= *found.rbegin()) break;
      span_ = {from, from + length()};
      if (found.contains(key) || !fits()) continue;
      found.insert(key);
      if (found.size() > kSuggestions) found.erase(std::prev(found.end()));
    }
  }

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
    const policy::DeviceState empty{.vram_left = spec.vram};
    return is_in_service(device.state) && capacity_.fleet().device_fits(spec, empty, *shape_);
  }

  struct GroupPlace {
    std::int64_t idle = 0;
    BookedPlace place{};
  };
  std::optional<BookedPlace> best_place() const {
    std::optional<GroupPlace> best;
    for_each_group([&](const Node& node, policy::NodeIndex index) {
      if (!offers(node, wanted_.environment)) return;
      auto one = place_in(node, index);
      if (one && (!best || one->idle < best->idle)) best = std::move(one);
    });
    return best ? std::optional(std::move(best->place)) : std::nullopt;
  }

  [[nodiscard]] std::optional<GroupPlace> place_in(const Node& node, policy::NodeIndex index) const {
    std::vector<Candidate> candidates;
    for (const DeviceId id : capacity_.devices_of(index))
      if (auto one = on_device(index, state_.devices.at(id))) candidates.push_back(*one);
    const auto needed = static_cast<std::size_t>(shape_->devices);
    if (candidates.size() < needed) return std::nullopt;
    std::sort(candidates.begin(), candidates.end());
    candidates.resize(needed);
    GroupPlace made{.place = {.node = node.id}};
    for (const Candidate& one : candidates) {
      made.idle += one.idle_milli;
      made.place.slices.push_back(one.slice);
    }
    return made;
  }

  // Everything on the device at some instant of the window, each with the time it begins to count.
  std::optional<Candidate> on_device(policy::NodeIndex index, const Device& device) const {
    if (wanted_.only != DeviceId{} && wanted_.only != device.id) return std::nullopt;
    if (taken_.contains(device.id) || !fits_empty(device) || !has_driver(device, wanted_.environment.driver))
      return std::nullopt;
    std::vector<const CalendarClaim*> claims;
    for (const CalendarClaim& claim : state_.index.calendar->claims_on(device.id)) {
      if (claim.claim != wanted_.instead_of && claim.from < span_.to && span_.from < claim.to)
        claims.push_back(&claim);
    }
    if (!wanted_.beside_offers) {
      for (const CalendarClaim& offer : listed_on(state_, device.id))
        if (offer.from < span_.to && span_.from < offer.to) claims.push_back(&offer);
    }
    if (wanted_.besides != nullptr && wanted_.only == device.id) {
      for (const CalendarClaim& claim : *wanted_.besides)
        if (claim.from < span_.to && span_.from < claim.to) claims.push_back(&claim);
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
    if (!legal_at(span_.from)) return std::nullopt;
    for (const CalendarClaim* claim : claims)
      if (claim->from > span_.from && !legal_at(claim->from)) return std::nullopt;
    return Candidate{.idle_milli = policy::kDeviceMilli - most, .device = device.id, .slice = *slice};
  }

  [[nodiscard]] std::optional<Slice> slice_on(policy::NodeIndex index,
                                              const Device& device,
                                              const std::vector<const CalendarClaim*>& claims,
                                              const std::vector<PassingUse>& running) const {
    Slice slice{.device = device.id, .milli = static_cast<std::uint16_t>(shape_->milli)};
    if (shape_->profile == 0) {
      slice.vram = shape_->shares() ? shape_->vram : device.facts.vram.count;
      return slice;
    }
    const policy::Geometry& table = capacity_.fleet().geometry(capacity_.fleet().spec(index));
    const policy::PartitionProfile* profile = table.find(shape_->profile);
    std::uint16_t used = 0;
    for (const CalendarClaim* claim : claims) used = static_cast<std::uint16_t>(used | claim->use.slots);
    for (const PassingUse& use : running)
      if (use.to > span_.from) used = static_cast<std::uint16_t>(used | use.use.slots);
    const auto start = profile == nullptr ? std::nullopt : start_of(table, *profile, used);
    if (!start) return std::nullopt;
    slice.milli = static_cast<std::uint16_t>(profile->milli);
    slice.vram = profile->vram;
    slice.start = static_cast<std::uint8_t>(*start);
    return slice;
  }

  [[nodiscard]] std::optional<std::int32_t> start_of(const policy::Geometry& table,
                                                     const policy::PartitionProfile& profile,
                                                     std::uint16_t used) const {
    if (!wanted_.start) return table.best_start(profile, used);
    const bool legal = ((profile.starts >> *wanted_.start) & 1U) != 0;
    if (!legal || (profile.slots_at(*wanted_.start) & used) != 0) return std::nullopt;
    return *wanted_.start;
  }

  const State& state_;
  Instant now_;
  const WindowAsk& wanted_;
  TimeSpan span_;  // That is looked at.
  const Capacity& capacity_;
  std::optional<policy::Shape> shape_;
  std::set<DeviceId> taken_;
};

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
  return Search(state, now, wanted).nearest();
}

}  // namespace tranche::engine
