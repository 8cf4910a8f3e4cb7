// SPDX-License-Identifier: Apache-2.0
#pragma once
// Space set aside for what must go through on a full disk: stops and cancels. Ordinary writes are refused
// (507) while the disk is low; essential ones may use the ballast, which is taken again when space returns.
#include <cstdint>
#include <filesystem>

namespace tranche::journal {

enum class Need { kOrdinary, kEssential };

struct DiskReserveOptions {
  std::uint64_t ballast_bytes = 16ULL << 20;
  std::uint64_t low_water_bytes = 8ULL
                                  << 20;  // Less than this free, beside the ballast: ordinary writes wait.
};

class DiskReserve {
 public:
  // Takes the ballast if there is room for it; a disk that is full already is no reason not to start.
  explicit DiskReserve(const std::filesystem::path& folder, DiskReserveOptions options = {});

  // One statvfs, about a microsecond: ask before every batch. kEssential lets the ballast go when it must.
  // False: answer 507. Also takes the ballast back once there is room for it.
  [[nodiscard]] bool admit(Need need);
  // For the batch that met DiskFull although admitted: true when the ballast was let go and one retry is
  // worth it.
  [[nodiscard]] bool release();

  [[nodiscard]] bool is_low() const { return low_; }  // For /readyz and metrics.
  [[nodiscard]] bool holds_ballast() const { return held_; }

 private:
  [[nodiscard]] std::uint64_t free_bytes() const;
  void take();

  std::filesystem::path folder_{};
  std::filesystem::path ballast_{};
  DiskReserveOptions options_{};
  bool held_ = false;
  bool low_ = false;
};

}  // namespace tranche::journal
