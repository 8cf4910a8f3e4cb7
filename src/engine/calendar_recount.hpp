// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is on a device and when, recounted from bookings and leases alone, at every instant at which anything
// begins. The calendar, the fleet and their rules are not asked: this is what tests hold them against.
#include <algorithm>
#include <vector>

#include "engine/state.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::engine {

struct Recount {
  const State& state;
  Instant now{};

  struct Piece {
    Instant from{};
    Instant to{};
    bool whole = false;
    const wire::PartitionProfile* profile = nullptr;  // Of a partition; else a share, unless whole.
    Slice slice{};
    std::uint32_t group = 0;
  };
  using Pieces = std::vector<Piece>;

  static Piece piece(const Device& device, const wire::Ask& ask, std::uint32_t group, const Slice& slice) {
    Piece made{.slice = slice, .group = group};
    if (!ask.profile.empty()) {
      made.profile = wire::find_profile(*wire::find_geometry(device.facts.model), ask.profile);
    } else {
      made.whole = ask.isolation != Isolation::kSoft || slice.milli >= 1000;
    }
    return made;
  }

  static bool legal(const Device& device, const Pieces& pieces) {
    std::int64_t milli = 0;
    std::int64_t vram = 0;
    std::vector<wire::PlacedPartition> partitions;
    for (const Piece& one : pieces) {
      if (one.whole) return pieces.size() == 1;
      if (one.profile != nullptr) {
        partitions.push_back({one.profile, one.slice.start});
      } else {
        if (one.group != pieces.front().group) return false;
        milli += one.slice.milli;
        vram += one.slice.vram;
      }
    }
    if (partitions.empty()) return milli <= 1000 && vram <= device.facts.vram.count;
    const wire::PartitionGeometry* geometry = wire::find_geometry(device.facts.model);
    return partitions.size() == pieces.size() && geometry != nullptr && wire::is_legal(*geometry, partitions);
  }

  // Windows that are booked and not over.
  [[nodiscard]] Pieces claimed(const Device& device, bool open_only = false) const {
    Pieces pieces;
    for (const auto& [id, booking] : state.bookings) {
      if (booking.state != BookingState::kBooked) continue;
      for (const BookedWindow& window : booking.windows) {
        if (window.state == WindowState::kClosed || (open_only && window.state != WindowState::kOpen))
          continue;
        for (const BookedPlace& place : window.places)
          for (const Slice& slice : place.slices)
            if (slice.device == device.id) {
              Piece made = piece(device, booking.ask, booking.trust_group, slice);
              made.from = window.from;
              made.to = window.to;
              pieces.push_back(made);
            }
      }
    }
    return pieces;
  }

  template <class Wanted>
  [[nodiscard]] Pieces leased(const Device& device, Wanted wanted) const {
    Pieces pieces;
    for (const auto& [id, lease] : state.leases) {
      const Job* job = state.job(lease.job);
      if (job == nullptr || !lease.holds_slices() || !wanted(lease, *job)) continue;
      for (const Slice& slice : lease.slices)
        if (slice.device == device.id) pieces.push_back(piece(device, job->ask, lease.trust_group, slice));
    }
    return pieces;
  }

  // Work that no booking may send away: until its time is up, or for the notice of an hour where it has no
  // limit.
  [[nodiscard]] Pieces staying(const Device& device) const {
    Pieces pieces;
    for (const auto& [id, lease] : state.leases) {
      const Job* job = state.job(lease.job);
      if (job == nullptr || !lease.live() || lease.revoked || lease.booking != ClaimId{} ||
          job->ask.preemptible)
        continue;
      for (const Slice& slice : lease.slices) {
        if (slice.device != device.id) continue;
        pieces.push_back(piece(device, job->ask, lease.trust_group, slice));
        pieces.back().from = now;
        pieces.back().to =
            job->ask.time == Duration{} ? now + std::chrono::hours(1) : lease.granted + job->ask.time;
      }
    }
    return pieces;
  }

  [[nodiscard]] Pieces others_on(const Device& device) const {
    Pieces others = claimed(device);
    for (const Piece& one : staying(device)) others.push_back(one);
    return others;
  }

  [[nodiscard]] bool fits_on(const Device& device,
                             const wire::Ask& ask,
                             std::uint32_t group,
                             TimeSpan span) const {
    const Pieces others = others_on(device);
    std::vector<Instant> begins{span.from};
    for (const Piece& one : others)
      if (one.from > span.from && one.from < span.to) begins.push_back(one.from);
    for (std::uint8_t start = 0; start < (ask.profile.empty() ? 1 : 8); ++start) {
      const Piece own = piece(device,
                              ask,
                              group,
                              {.device = device.id,
                               .milli = static_cast<std::uint16_t>(ask.milli_each),
                               .vram = ask.vram_each,
                               .start = start});
      const bool always = std::ranges::all_of(begins, [&](Instant at) {
        Pieces together{own};
        for (const Piece& one : others)
          if (one.from <= at && at < one.to) together.push_back(one);
        return legal(device, together);
      });
      if (always) return true;
    }
    return false;
  }

  // For an ask of one node: whether some node has enough devices for it during all of the span.
  [[nodiscard]] bool fits(const wire::Ask& ask, std::uint32_t group, TimeSpan span) const {
    for (const auto& [id, node] : state.nodes) {
      std::uint32_t devices = 0;
      for (const DeviceId device : node.devices) {
        const Device& one = state.devices.at(device);
        if (!ask.profile.empty() && one.facts.profiles.empty()) continue;
        devices += fits_on(one, ask, group, span) ? 1U : 0U;
      }
      if (devices >= ask.instances) return true;
    }
    return false;
  }

  // How far the nearest window that fits is from the one that was wanted; nothing when none begins before
  // `until`. It touches what is wanted, or something that begins or ends.
  [[nodiscard]] std::optional<Duration> nearest(const wire::Ask& ask,
                                                std::uint32_t group,
                                                TimeSpan wanted,
                                                Instant until) const {
    const Duration length = wanted.to - wanted.from;
    std::vector<Duration> distances;
    const auto consider = [&](Instant from) {
      if (from >= now && from < until) distances.push_back(from - wanted.from);
    };
    consider(wanted.from);
    consider(now);
    for (const auto& [id, device] : state.devices)
      for (const Piece& one : others_on(device)) {
        consider(one.to);
        consider(one.from - length);
      }
    const auto far = [](Duration one) { return one < Duration{} ? -one : one; };
    std::ranges::sort(distances, {}, far);
    const auto fitting = std::ranges::find_if(distances, [&](Duration one) {
      return fits(ask, group, {wanted.from + one, wanted.from + one + length});
    });
    return fitting == distances.end() ? std::nullopt : std::optional(far(*fitting));
  }
};

}  // namespace tranche::engine
