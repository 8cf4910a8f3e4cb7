// SPDX-License-Identifier: Apache-2.0
// Profiles as nvidia-smi lists them where such a listing was published, from configuration files elsewhere.
// Placements were verified on A100 and hold for every part with seven slices.
#include "wire/partition_geometry.hpp"

#include <algorithm>
#include <array>

#include "wire/gpu_catalog.hpp"

namespace tranche::wire {
namespace {

// Hundredths of a GiB, which is how finely nvidia-smi prints sizes.
constexpr Bytes listed(std::int64_t hundredths) {
  return {hundredths * (std::int64_t{1} << 30) / 100};
}
// Not on record: nine tenths of the size in the name, below anything seen of others.
constexpr Bytes from_name_of(std::int64_t gigabytes_named) {
  return {gigabytes_named * 900'000'000};
}
constexpr bool kMedia = true;
constexpr bool kEstimated = true;

// name, compute slices, memory slices, starts, most of them, media, estimated, driver's id, SMs, memory
// clang-format off
constexpr std::array<PartitionProfile, 5> kA3024{{
    {"1g.6gb", 1, 1, 0b1111, 4, !kMedia, !kEstimated, -1, 14, listed(570)},
    {"1g.6gb+me", 1, 1, 0b1111, 1, kMedia, !kEstimated, -1, 14, listed(570)},
    {"2g.12gb", 2, 2, 0b0101, 2, !kMedia, !kEstimated, -1, 28, listed(1140)},
    {"2g.12gb+me", 2, 2, 0b0101, 1, kMedia, !kEstimated, -1, 28, listed(1140)},
    {"4g.24gb", 4, 4, 0b0001, 1, !kMedia, !kEstimated, -1, 56, listed(2280)},
}};
constexpr std::array<PartitionProfile, 7> kA10040{{
    {"1g.5gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 14, listed(475)},
    {"1g.5gb+me", 1, 1, 0b01111111, 1, kMedia, !kEstimated, 20, 14, listed(475)},
    {"1g.10gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 14, listed(962)},
    {"2g.10gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 28, listed(962)},
    {"3g.20gb", 3, 4, 0b00010001, 2, !kMedia, !kEstimated, 9, 42, listed(1950)},
    {"4g.20gb", 4, 4, 0b00000001, 1, !kMedia, !kEstimated, 5, 56, listed(1950)},
    {"7g.40gb", 7, 8, 0b00000001, 1, !kMedia, !kEstimated, 0, 98, listed(3925)},
}};
constexpr std::array<PartitionProfile, 7> kA10080{{
    {"1g.10gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 14, listed(962)},
    {"1g.10gb+me", 1, 1, 0b01111111, 1, kMedia, !kEstimated, 20, 14, listed(962)},
    {"1g.20gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 14, listed(1950)},
    {"2g.20gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 28, listed(1950)},
    {"3g.40gb", 3, 4, 0b00010001, 2, !kMedia, !kEstimated, 9, 42, listed(3925)},
    {"4g.40gb", 4, 4, 0b00000001, 1, !kMedia, !kEstimated, 5, 56, listed(3925)},
    {"7g.80gb", 7, 8, 0b00000001, 1, !kMedia, !kEstimated, 0, 98, listed(7850)},
}};
constexpr std::array<PartitionProfile, 7> kH10080{{
    {"1g.10gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 16, listed(975)},
    {"1g.10gb+me", 1, 1, 0b01111111, 1, kMedia, !kEstimated, 20, 16, listed(975)},
    {"1g.20gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 26, listed(1962)},
    {"2g.20gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 32, listed(1962)},
    {"3g.40gb", 3, 4, 0b00010001, 2, !kMedia, !kEstimated, 9, 60, listed(3950)},
    {"4g.40gb", 4, 4, 0b00000001, 1, !kMedia, !kEstimated, 5, 64, listed(3950)},
    {"7g.80gb", 7, 8, 0b00000001, 1, !kMedia, !kEstimated, 0, 132, listed(7925)},
}};
constexpr std::array<PartitionProfile, 7> kH100Nvl94{{
    {"1g.12gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 16, listed(1075)},
    {"1g.12gb+me", 1, 1, 0b01111111, 1, kMedia, !kEstimated, 20, 16, listed(1075)},
    {"1g.24gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 26, listed(2162)},
    {"2g.24gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 32, listed(2162)},
    {"3g.47gb", 3, 4, 0b00010001, 2, !kMedia, kEstimated, 9, 0, from_name_of(47)},
    {"4g.47gb", 4, 4, 0b00000001, 1, !kMedia, kEstimated, 5, 0, from_name_of(47)},
    {"7g.94gb", 7, 8, 0b00000001, 1, !kMedia, kEstimated, 0, 0, from_name_of(94)},
}};
constexpr std::array<PartitionProfile, 6> kH10096{{
    {"1g.12gb", 1, 1, 0b01111111, 7, !kMedia, kEstimated, 19, 0, from_name_of(12)},
    {"1g.24gb", 1, 2, 0b01010101, 4, !kMedia, kEstimated, 15, 0, from_name_of(24)},
    {"2g.24gb", 2, 2, 0b00010101, 3, !kMedia, kEstimated, 14, 0, from_name_of(24)},
    {"3g.48gb", 3, 4, 0b00010001, 2, !kMedia, kEstimated, 9, 0, from_name_of(48)},
    {"4g.48gb", 4, 4, 0b00000001, 1, !kMedia, kEstimated, 5, 0, from_name_of(48)},
    {"7g.96gb", 7, 8, 0b00000001, 1, !kMedia, kEstimated, 0, 0, from_name_of(96)},
}};
constexpr std::array<PartitionProfile, 6> kGh200144{{
    {"1g.18gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 16, listed(1750)},
    {"1g.36gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 26, listed(3525)},
    {"2g.36gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 32, listed(3525)},
    {"3g.72gb", 3, 4, 0b00010001, 2, !kMedia, kEstimated, 9, 0, from_name_of(72)},
    {"4g.72gb", 4, 4, 0b00000001, 1, !kMedia, kEstimated, 5, 0, from_name_of(72)},
    {"7g.144gb", 7, 8, 0b00000001, 1, !kMedia, kEstimated, 0, 0, from_name_of(144)},
}};
constexpr std::array<PartitionProfile, 7> kH200141{{
    {"1g.18gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 16, listed(1600)},
    {"1g.18gb+me", 1, 1, 0b01111111, 1, kMedia, !kEstimated, 20, 16, listed(1600)},
    {"1g.35gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 26, listed(3225)},
    {"2g.35gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 32, listed(3225)},
    {"3g.71gb", 3, 4, 0b00010001, 2, !kMedia, !kEstimated, 9, 60, listed(6950)},
    {"4g.71gb", 4, 4, 0b00000001, 1, !kMedia, !kEstimated, 5, 64, listed(6950)},
    {"7g.141gb", 7, 8, 0b00000001, 1, !kMedia, kEstimated, 0, 132, from_name_of(141)},
}};
constexpr std::array<PartitionProfile, 7> kB200180{{
    {"1g.23gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 18, listed(2050)},
    {"1g.23gb+me", 1, 1, 0b01111111, 1, kMedia, !kEstimated, 20, 18, listed(2050)},
    {"1g.45gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 30, listed(4425)},
    {"2g.45gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 36, listed(4425)},
    {"3g.90gb", 3, 4, 0b00010001, 2, !kMedia, kEstimated, 9, 0, from_name_of(90)},
    {"4g.90gb", 4, 4, 0b00000001, 1, !kMedia, kEstimated, 5, 0, from_name_of(90)},
    {"7g.180gb", 7, 8, 0b00000001, 1, !kMedia, kEstimated, 0, 0, from_name_of(180)},
}};
constexpr std::array<PartitionProfile, 6> kGb200186{{
    {"1g.24gb", 1, 1, 0b01111111, 7, !kMedia, !kEstimated, 19, 18, listed(2000)},
    {"1g.47gb", 1, 2, 0b01010101, 4, !kMedia, !kEstimated, 15, 32, listed(4550)},
    {"2g.47gb", 2, 2, 0b00010101, 3, !kMedia, !kEstimated, 14, 38, listed(4550)},
    {"3g.93gb", 3, 4, 0b00010001, 2, !kMedia, kEstimated, 9, 0, from_name_of(93)},
    {"4g.93gb", 4, 4, 0b00000001, 1, !kMedia, kEstimated, 5, 0, from_name_of(93)},
    {"7g.186gb", 7, 8, 0b00000001, 1, !kMedia, kEstimated, 0, 0, from_name_of(186)},
}};
constexpr std::array<PartitionProfile, 6> kB300{{
    {"1g.34gb", 1, 1, 0b01111111, 7, !kMedia, kEstimated, 19, 0, from_name_of(34)},
    {"1g.67gb", 1, 2, 0b01010101, 4, !kMedia, kEstimated, 15, 0, from_name_of(67)},
    {"2g.67gb", 2, 2, 0b00010101, 3, !kMedia, kEstimated, 14, 0, from_name_of(67)},
    {"3g.135gb", 3, 4, 0b00010001, 2, !kMedia, kEstimated, 9, 0, from_name_of(135)},
    {"4g.135gb", 4, 4, 0b00000001, 1, !kMedia, kEstimated, 5, 0, from_name_of(135)},
    {"7g.269gb", 7, 8, 0b00000001, 1, !kMedia, kEstimated, 0, 0, from_name_of(269)},
}};
constexpr std::array<PartitionProfile, 4> kRtxPro6000Bse{{
    {"1g.24gb", 1, 1, 0b1111, 4, !kMedia, !kEstimated, -1, 46, listed(2312)},
    {"1g.24gb+me", 1, 1, 0b1111, 1, kMedia, !kEstimated, -1, 46, listed(2312)},
    {"2g.48gb", 2, 2, 0b0101, 2, !kMedia, kEstimated, -1, 0, from_name_of(48)},
    {"4g.96gb", 4, 4, 0b0001, 1, !kMedia, kEstimated, -1, 0, from_name_of(96)},
}};

constexpr std::array<PartitionGeometry, 12> kGeometries{{
    {"A30-24", 4, 4, kA3024},
    {"A100-40", 7, 8, kA10040},
    {"A100-80", 7, 8, kA10080},
    {"H100-80", 7, 8, kH10080},
    {"H100 NVL-94", 7, 8, kH100Nvl94},
    {"H100-96", 7, 8, kH10096},
    {"GH200-144", 7, 8, kGh200144},
    {"H200-141", 7, 8, kH200141},
    {"B200-180", 7, 8, kB200180},
    {"GB200-186", 7, 8, kGb200186},
    {"B300", 7, 8, kB300},
    {"RTX PRO 6000 BSE", 4, 4, kRtxPro6000Bse},
}};
// clang-format on

struct Owner {
  std::string_view gpu_name;
  std::string_view device;
};
constexpr std::array kOwners{Owner{"A30", "A30-24"},
                             Owner{"A100-PCIE-40GB", "A100-40"},
                             Owner{"A100-SXM4-40GB", "A100-40"},
                             Owner{"A100-PCIE-80GB", "A100-80"},
                             Owner{"A100-SXM4-80GB", "A100-80"},
                             Owner{"H100-PCIE-80GB", "H100-80"},
                             Owner{"H100-SXM5-80GB", "H100-80"},
                             Owner{"H100-NVL-94GB", "H100 NVL-94"},
                             Owner{"GH200-96GB", "H100-96"},
                             Owner{"H200-SXM-141GB", "H200-141"},
                             Owner{"H200-NVL-141GB", "H200-141"},
                             Owner{"B200-SXM", "B200-180"},
                             Owner{"GB200", "GB200-186"},
                             Owner{"B300-SXM", "B300"},
                             Owner{"RTXPRO6000-BSE", "RTX PRO 6000 BSE"}};

std::uint32_t slices(const PlacedPartition& placed) {
  return ((1U << placed.profile->memory_slices) - 1U) << placed.start;
}

}  // namespace

std::span<const PartitionGeometry> partition_geometries() {
  return kGeometries;
}

const PartitionGeometry* find_geometry(std::string_view gpu_name) {
  const GpuModel* const model = find_gpu_model(gpu_name);
  if (model == nullptr) return nullptr;
  const auto owner = std::find_if(
      kOwners.begin(), kOwners.end(), [&](const Owner& known) { return known.gpu_name == model->name; });
  if (owner == kOwners.end()) return nullptr;
  return std::find_if(kGeometries.begin(), kGeometries.end(), [&](const PartitionGeometry& geometry) {
    return geometry.device == owner->device;
  });
}

const PartitionProfile* find_profile(const PartitionGeometry& geometry, std::string_view name) {
  for (const PartitionProfile& profile : geometry.profiles) {
    if (equal_ignoring_case(profile.name, name)) return &profile;
  }
  return nullptr;
}

bool is_legal(const PartitionGeometry& geometry, std::span<const PlacedPartition> layout) {
  std::uint32_t taken = 0;
  unsigned compute = 0;
  unsigned media = 0;
  for (const PlacedPartition& placed : layout) {
    const bool starts_here = placed.start < 8 && (placed.profile->starts >> placed.start & 1U) != 0;
    if (!starts_here || (taken & slices(placed)) != 0) return false;
    taken |= slices(placed);
    compute += placed.profile->compute_slices;
    media += placed.profile->media ? 1 : 0;
    const auto same = std::count_if(layout.begin(), layout.end(), [&](const PlacedPartition& other) {
      return other.profile == placed.profile;
    });
    if (same > placed.profile->count_max) return false;
  }
  return compute <= geometry.compute_slices && media <= 1;
}

std::vector<std::uint8_t> free_starts(const PartitionGeometry& geometry,
                                      std::span<const PlacedPartition> layout,
                                      const PartitionProfile& profile) {
  std::vector<std::uint8_t> starts;
  std::vector<PlacedPartition> grown(layout.begin(), layout.end());
  grown.emplace_back();
  for (std::uint8_t start = 0; start < geometry.memory_slices; ++start) {
    grown.back() = {.profile = &profile, .start = start};
    if (is_legal(geometry, grown)) starts.push_back(start);
  }
  return starts;
}

}  // namespace tranche::wire
