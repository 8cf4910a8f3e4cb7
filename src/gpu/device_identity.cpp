// SPDX-License-Identifier: Apache-2.0
#include "gpu/device_identity.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <unistd.h>

#include "base/wall_clock.hpp"
#include "wire/partition_geometry.hpp"

namespace tranche::gpu {
namespace {

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : wire::lower_case(name)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter) words.back() += c;
    if (!letter && !words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string squeezed(std::string_view name) {
  std::string out;
  for (const std::string& word : words_of(name)) out += word;
  return out;
}

// "rtx 6000 ada" written in one, two or three words.
bool says(const std::vector<std::string>& words, const std::string& wanted) {
  for (std::size_t first = 0; first < words.size(); ++first) {
    std::string joined;
    for (std::size_t i = first; i < words.size() && joined.size() < wanted.size(); ++i) joined += words[i];
    if (joined == wanted) return true;
  }
  return false;
}

// How well a variant fits what the driver says beyond the chip: the board's form counts before the memory.
std::int64_t distance(const wire::GpuModel& model, const std::vector<std::string>& words, Bytes vram) {
  std::int64_t penalty = 0;
  for (const char* form : {"pcie", "nvl"}) {
    const bool in_model = squeezed(model.name).find(form) != std::string::npos;
    if (in_model != says(words, form)) penalty += std::int64_t{1} << 50;
  }
  return penalty + (vram.count == 0 ? 0 : std::abs(model.vram.count - vram.count));
}

std::string sysfs_folder(std::string_view pci_address) {
  return "/sys/bus/pci/devices/" + normal_pci_address(pci_address);
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::uint64_t fnv1a(std::string_view text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  // Names differ in their last letter; without this their hashes would look alike.
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccdULL;
  hash = (hash ^ (hash >> 33U)) * 0xc4ceb9fe1a85ec53ULL;
  return hash ^ (hash >> 33U);
}

}  // namespace

const wire::GpuModel* model_of(std::string_view driver_name, Bytes vram) {
  const auto words = words_of(driver_name);
  const wire::GpuModel* best = nullptr;
  for (const wire::GpuModel& model : wire::gpu_catalog()) {
    if (!says(words, squeezed(model.family))) continue;
    if (best == nullptr || model.family.size() > best->family.size() ||
        (model.family == best->family && distance(model, words, vram) < distance(*best, words, vram)))
      best = &model;
  }
  return best;
}

void describe_from_catalog(wire::DeviceFacts& facts) {
  const wire::GpuModel* const model = model_of(facts.name, facts.vram);
  if (model == nullptr) return;
  facts.vendor = model->vendor;
  facts.model = model->short_name;
  if (facts.multiprocessors == 0) facts.multiprocessors = model->multiprocessors;
}

std::vector<wire::ProfileFacts> planned_profiles(std::string_view model) {
  std::vector<wire::ProfileFacts> out;
  const wire::PartitionGeometry* const geometry = wire::find_geometry(model);
  if (geometry == nullptr) return out;
  for (const wire::PartitionProfile& profile : geometry->profiles) {
    out.push_back({.name = std::string(profile.name),
                   .compute_slices = profile.compute_slices,
                   .memory_slices = profile.memory_slices,
                   .starts = profile.starts,
                   .count_max = profile.count_max,
                   .memory = profile.memory});
  }
  return out;
}

std::string pci_address_text(std::uint32_t domain,
                             std::uint32_t bus,
                             std::uint32_t device,
                             std::uint32_t function) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

std::string normal_pci_address(std::string_view address) {
  const std::string text = wire::lower_case(address);
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(text.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4)
    return pci_address_text(domain, bus, device, function);
  if (std::sscanf(text.c_str(), "%x:%x.%x", &bus, &device, &function) == 3)
    return pci_address_text(0, bus, device, function);
  return text;
}

std::int32_t numa_node_of(std::string_view pci_address) {
  if (pci_address.empty()) return -1;
  const std::string line = first_line(sysfs_folder(pci_address) + "/numa_node");
  std::int32_t node = -1;
  std::from_chars(line.data(), line.data() + line.size(), node);
  return node;
}

std::vector<std::string> render_files_of(std::string_view pci_address) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(sysfs_folder(pci_address) + "/drm", error)) {
    out.push_back("/dev/dri/" + entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> those_that_exist(std::vector<std::string> paths) {
  std::erase_if(paths, [](const std::string& path) { return ::access(path.c_str(), F_OK) != 0; });
  return paths;
}

std::string uuid_text(const std::array<std::uint8_t, 16>& bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    out += digits;
  }
  return out;
}

std::string uuid_from(std::string_view text) {
  const std::uint64_t halves[2] = {fnv1a(text, 0xcbf29ce484222325ULL), fnv1a(text, 0x9ae16a3b2f90404fULL)};
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(halves[i / 8] >> (8 * (i % 8)));
  return uuid_text(bytes);
}

std::string machine_identity() {
  const std::string id = first_line("/etc/machine-id");
  if (!id.empty()) return id;
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

Instant wall_time() {
  return wall_clock();
}

}  // namespace tranche::gpu
