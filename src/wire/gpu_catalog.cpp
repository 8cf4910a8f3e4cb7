// SPDX-License-Identifier: Apache-2.0
// From vendors' sheets. Cross-checked against other publications: A100, H100, H200, B200, MI300X, L40S and
// L40; for AMD the partitions are compute partitions, not MIG.
#include "wire/gpu_catalog.hpp"

#include <algorithm>
#include <array>

namespace tranche::wire {
namespace {

// name, short name, aliases, family, vendor, architecture, capability, VRAM, memory, GB/s, SMs or CUs,
// fp16 and fp32 in GFLOP/s, watts, partitions.
// clang-format off
constexpr std::array<GpuModel, 41> kCatalog{{
    {"T4", "T4", "", "T4", GpuVendor::kNvidia, "Turing", "7.5",
     gigabytes(16), "GDDR6", 320, 40, 65000, 8100, 70, 0},
    {"P100-SXM2", "P100", "P100", "P100", GpuVendor::kNvidia, "Pascal", "6.0",
     gigabytes(16), "HBM2", 732, 56, 21200, 10600, 300, 0},
    {"V100-SXM2-16GB", "V100", "V100;V100-16GB;V100M16", "V100", GpuVendor::kNvidia, "Volta", "7.0",
     gigabytes(16), "HBM2", 900, 80, 125000, 15700, 300, 0},
    {"V100-SXM2-32GB", "V100-32GB", "V100-32GB;V100M32", "V100", GpuVendor::kNvidia, "Volta", "7.0",
     gigabytes(32), "HBM2", 900, 80, 125000, 15700, 300, 0},
    {"A2", "A2", "", "A2", GpuVendor::kNvidia, "Ampere", "8.6",
     gigabytes(16), "GDDR6", 200, 10, 18000, 4500, 60, 0},
    {"A10", "A10", "", "A10", GpuVendor::kNvidia, "Ampere", "8.6",
     gigabytes(24), "GDDR6", 600, 72, 125000, 31200, 150, 0},
    {"A10G", "A10G", "", "A10G", GpuVendor::kNvidia, "Ampere", "8.6",
     gigabytes(24), "GDDR6", 600, 80, 70000, 35000, 300, 0},
    {"A30", "A30", "", "A30", GpuVendor::kNvidia, "Ampere", "8.0",
     gigabytes(24), "HBM2", 933, 56, 165000, 10300, 165, 4},
    {"A40", "A40", "", "A40", GpuVendor::kNvidia, "Ampere", "8.6",
     gigabytes(48), "GDDR6", 696, 84, 149700, 37400, 300, 0},
    {"A100-PCIE-40GB", "A100-40GB-PCIE", "A100-40GB-PCIE", "A100", GpuVendor::kNvidia, "Ampere", "8.0",
     gigabytes(40), "HBM2", 1555, 108, 312000, 19500, 250, 7},
    {"A100-SXM4-40GB", "A100", "A100;A100-40GB", "A100", GpuVendor::kNvidia, "Ampere", "8.0",
     gigabytes(40), "HBM2", 1555, 108, 312000, 19500, 400, 7},
    {"A100-PCIE-80GB", "A100-80GB-PCIE", "A100-80GB-PCIE", "A100", GpuVendor::kNvidia, "Ampere", "8.0",
     gigabytes(80), "HBM2e", 1935, 108, 312000, 19500, 300, 7},
    {"A100-SXM4-80GB", "A100-80GB", "A100-80GB;A100-80GB-SXM", "A100", GpuVendor::kNvidia, "Ampere", "8.0",
     gigabytes(80), "HBM2e", 2039, 108, 312000, 19500, 400, 7},
    {"L4", "L4", "", "L4", GpuVendor::kNvidia, "Ada", "8.9",
     gigabytes(24), "GDDR6", 300, 58, 121000, 30300, 72, 0},
    {"L40", "L40", "", "L40", GpuVendor::kNvidia, "Ada", "8.9",
     gigabytes(48), "GDDR6", 864, 142, 181000, 90500, 300, 0},
    {"L40S", "L40S", "", "L40S", GpuVendor::kNvidia, "Ada", "8.9",
     gigabytes(48), "GDDR6", 864, 142, 362000, 91600, 350, 0},
    {"H100-PCIE-80GB", "H100-PCIE", "H100-PCIE", "H100", GpuVendor::kNvidia, "Hopper", "9.0",
     gigabytes(80), "HBM2e", 2039, 114, 756000, 51000, 350, 7},
    {"H100-SXM5-80GB", "H100", "H100;H100-80GB;H100-SXM", "H100", GpuVendor::kNvidia, "Hopper", "9.0",
     gigabytes(80), "HBM3", 3350, 132, 989000, 67000, 700, 7},
    {"H100-NVL-94GB", "H100-NVL", "H100-NVL", "H100", GpuVendor::kNvidia, "Hopper", "9.0",
     gigabytes(94), "HBM3", 3938, 132, 835000, 60000, 400, 7},
    {"GH200-96GB", "GH200", "GH200", "GH200", GpuVendor::kNvidia, "Hopper", "9.0",
     gigabytes(96), "HBM3", 4000, 132, 989000, 67000, 700, 7},
    {"H200-SXM-141GB", "H200", "H200;H200-SXM;H200-141GB", "H200", GpuVendor::kNvidia, "Hopper", "9.0",
     gigabytes(141), "HBM3e", 4800, 132, 989000, 67000, 700, 7},
    {"H200-NVL-141GB", "H200-NVL", "H200-NVL", "H200", GpuVendor::kNvidia, "Hopper", "9.0",
     gigabytes(141), "HBM3e", 4800, 132, 835000, 60000, 600, 7},
    {"B200-SXM", "B200", "B200", "B200", GpuVendor::kNvidia, "Blackwell", "10.0",
     gigabytes(180), "HBM3e", 8000, 148, 2250000, 75000, 1000, 7},
    {"GB200", "GB200", "", "GB200", GpuVendor::kNvidia, "Blackwell", "10.0",
     gigabytes(186), "HBM3e", 8000, 152, 2500000, 80000, 1200, 7},
    {"B300-SXM", "B300", "B300", "B300", GpuVendor::kNvidia, "BlackwellUltra", "10.3",
     gigabytes(270), "HBM3e", 8000, 148, 2250000, 75000, 1400, 7},
    {"RTX3090", "RTX3090", "3090", "RTX3090", GpuVendor::kNvidia, "Ampere", "8.6",
     gigabytes(24), "GDDR6X", 936, 82, 71000, 35600, 350, 0},
    {"RTX4090", "RTX4090", "4090", "RTX4090", GpuVendor::kNvidia, "Ada", "8.9",
     gigabytes(24), "GDDR6X", 1008, 128, 165000, 82600, 450, 0},
    {"RTX5090", "RTX5090", "5090", "RTX5090", GpuVendor::kNvidia, "Blackwell", "12.0",
     gigabytes(32), "GDDR7", 1792, 170, 209000, 104800, 575, 0},
    {"RTXA6000", "RTXA6000", "A6000", "RTXA6000", GpuVendor::kNvidia, "Ampere", "8.6",
     gigabytes(48), "GDDR6", 768, 84, 155000, 38700, 300, 0},
    {"RTX6000Ada", "RTX6000Ada", "RTX6000-ADA", "RTX6000Ada", GpuVendor::kNvidia, "Ada", "8.9",
     gigabytes(48), "GDDR6", 960, 142, 364000, 91100, 300, 0},
    {"RTXPRO6000-BSE", "RTXPRO6000", "RTXPRO6000", "RTXPRO6000", GpuVendor::kNvidia, "Blackwell", "12.0",
     gigabytes(96), "GDDR7", 1597, 188, 500000, 120000, 600, 4},
    {"MI210", "MI210", "", "MI210", GpuVendor::kAmd, "CDNA2", "gfx90a",
     gigabytes(64), "HBM2e", 1638, 104, 181000, 22600, 300, 0},
    {"MI250X", "MI250X", "", "MI250X", GpuVendor::kAmd, "CDNA2", "gfx90a",
     gigabytes(128), "HBM2e", 3277, 220, 383000, 47900, 560, 0},
    {"MI300X", "MI300X", "", "MI300X", GpuVendor::kAmd, "CDNA3", "gfx942",
     gigabytes(192), "HBM3", 5300, 304, 1307000, 163400, 750, 8},
    {"MI325X", "MI325X", "", "MI325X", GpuVendor::kAmd, "CDNA3", "gfx942",
     gigabytes(256), "HBM3e", 6000, 304, 1307000, 163400, 1000, 8},
    {"MI350X", "MI350X", "", "MI350X", GpuVendor::kAmd, "CDNA4", "gfx950",
     gigabytes(288), "HBM3e", 8000, 256, 2300000, 144000, 1000, 8},
    {"MI355X", "MI355X", "", "MI355X", GpuVendor::kAmd, "CDNA4", "gfx950",
     gigabytes(288), "HBM3e", 8000, 256, 2500000, 157000, 1400, 8},
    {"Max1550", "Max1550", "PVC", "Max1550", GpuVendor::kIntel, "PonteVecchio", "xe-hpc",
     gigabytes(128), "HBM2e", 3277, 128, 839000, 52000, 600, 0},
    {"Flex170", "Flex170", "", "Flex170", GpuVendor::kIntel, "ArcticSound", "xe-hpg",
     gigabytes(16), "GDDR6", 576, 32, 137000, 16000, 150, 0},
    {"Gaudi2", "Gaudi2", "", "Gaudi2", GpuVendor::kIntel, "Gaudi", "-",
     gigabytes(96), "HBM2e", 2450, 24, 432000, 0, 600, 0},
    {"Gaudi3", "Gaudi3", "", "Gaudi3", GpuVendor::kIntel, "Gaudi", "-",
     gigabytes(128), "HBM2e", 3700, 64, 1835000, 0, 900, 0},
}};
// clang-format on

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool in_aliases(std::string_view aliases, std::string_view name) {
  while (!aliases.empty()) {
    const auto end = std::min(aliases.find(';'), aliases.size());
    if (equal_ignoring_case(aliases.substr(0, end), name)) return true;
    aliases.remove_prefix(std::min(end + 1, aliases.size()));
  }
  return false;
}

// A100-80GB says no more than chip and memory; A100-SXM4-80GB and H100-NVL say which variant.
bool names_a_variant(const GpuModel& model, std::string_view asked) {
  if (equal_ignoring_case(asked, model.family)) return false;
  const std::string with_memory =
      std::string(model.family) + "-" + std::to_string(model.vram.count / gigabytes(1).count) + "GB";
  return !equal_ignoring_case(asked, with_memory);
}

}  // namespace

std::span<const GpuModel> gpu_catalog() {
  return kCatalog;
}

const GpuModel* find_gpu_model(std::string_view name) {
  for (const GpuModel& model : kCatalog) {
    if (equal_ignoring_case(model.name, name) || equal_ignoring_case(model.short_name, name) ||
        in_aliases(model.aliases, name)) {
      return &model;
    }
  }
  return nullptr;
}

std::string_view canonical_gpu_name(const GpuModel& model, std::string_view name) {
  const bool only_one = std::count_if(kCatalog.begin(), kCatalog.end(), [&](const GpuModel& other) {
                          return other.family == model.family;
                        }) == 1;
  if (only_one || !names_a_variant(model, name)) return model.short_name;
  std::string_view aliases = model.aliases;
  while (!aliases.empty()) {
    const auto end = std::min(aliases.find(';'), aliases.size());
    if (names_a_variant(model, aliases.substr(0, end))) return aliases.substr(0, end);
    aliases.remove_prefix(std::min(end + 1, aliases.size()));
  }
  return model.name;
}

bool is_meant_by(const GpuModel& device, std::string_view asked, MemoryMatch memory) {
  const GpuModel* const model = find_gpu_model(asked);
  if (model == nullptr) return false;
  if (&device == model) return true;
  if (names_a_variant(*model, asked)) return false;
  return device.family == model->family && (memory == MemoryMatch::kAny || device.vram == model->vram);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace tranche::wire
