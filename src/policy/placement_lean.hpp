// SPDX-License-Identifier: Apache-2.0
#pragma once
// A node boiled down to what its future value depends on: CPU, memory, free devices, and remainders of shared
// ones. VRAM and compute of a shared device count as one remainder, the scarcer of the two.
#include <algorithm>
#include <array>
#include <cstdint>

#include "policy/placement_shape.hpp"

namespace tranche::policy {

// A request in the same terms, on a given type of node.
struct LeanForm {
  std::int32_t cpu = 0;
  std::int32_t memory = 0;
  std::int16_t devices = 0;
  std::int16_t milli = 0;

  [[nodiscard]] int gpu() const { return devices * milli; }
  [[nodiscard]] bool shares() const { return devices > 0 && milli < kDeviceMilli; }
  auto operator<=>(const LeanForm&) const = default;
};

struct LeanNode {
  std::int32_t cpu = 0;
  std::int32_t memory = 0;
  std::int16_t free = 0;      // Untouched devices.
  std::int16_t partials = 0;  // How many remainders follow.
  std::array<std::int16_t, kDevicesMax>
      left{};  // Remainders of shared devices, ascending; zeros are left out.

  [[nodiscard]] int idle() const {
    int sum = free * kDeviceMilli;
    for (int i = 0; i < partials; ++i) sum += left[static_cast<std::size_t>(i)];
    return sum;
  }

  // Position of the tightest remainder that takes `milli`; partials when only a free device might.
  [[nodiscard]] int tightest(int milli) const {
    int i = 0;
    while (i < partials && left[static_cast<std::size_t>(i)] < milli) ++i;
    return i;
  }

  [[nodiscard]] bool fits(const LeanForm& form) const {
    if (cpu < form.cpu || memory < form.memory) return false;
    if (form.devices == 0) return true;
    if (!form.shares()) return free >= form.devices;
    return free >= form.devices || free + (partials - tightest(form.milli)) >= form.devices;
  }

  void insert(int milli) {
    if (milli <= 0) return;
    int at = partials++;
    for (; at > 0 && left[static_cast<std::size_t>(at - 1)] > milli; --at)
      left[static_cast<std::size_t>(at)] = left[static_cast<std::size_t>(at - 1)];
    left[static_cast<std::size_t>(at)] = static_cast<std::int16_t>(milli);
  }

  // One share from the remainder at `position`, or from a free device when position is partials.
  void share_from(int position, int milli) {
    int rest = kDeviceMilli - milli;
    if (position == partials) {
      --free;
    } else {
      rest = left[static_cast<std::size_t>(position)] - milli;
      --partials;
      for (int i = position; i < partials; ++i)
        left[static_cast<std::size_t>(i)] = left[static_cast<std::size_t>(i + 1)];
      left[static_cast<std::size_t>(partials)] = 0;
    }
    insert(rest);
  }

  // On the tightest devices. Only if it fits.
  void take(const LeanForm& form) {
    cpu -= form.cpu;
    memory -= form.memory;
    if (form.shares()) {
      for (int i = 0; i < form.devices; ++i) share_from(tightest(form.milli), form.milli);
    } else {
      free = static_cast<std::int16_t>(free - form.devices);
    }
  }

  [[nodiscard]] std::uint64_t hash() const {
    auto mix = [](std::uint64_t h, std::uint64_t word) {
      h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
      return h ^ (h >> 29U);
    };
    std::uint64_t h = mix(static_cast<std::uint32_t>(cpu), static_cast<std::uint32_t>(memory));
    std::uint64_t word = static_cast<std::uint64_t>(free);
    for (int i = 0; i < partials; ++i) {
      word = (word << 16U) | static_cast<std::uint64_t>(left[static_cast<std::size_t>(i)]);
      if (i % 4 == 2) {
        h = mix(h, word);
        word = 0;
      }
    }
    return mix(mix(h, word), static_cast<std::uint64_t>(partials));
  }
};

}  // namespace tranche::policy
