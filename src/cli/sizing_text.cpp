// SPDX-License-Identifier: Apache-2.0
#include "cli/sizing_text.hpp"

#include <cstdio>

#include "cli/output.hpp"

namespace tranche::cli {

std::string gigabytes_text(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

std::string sizing_text(const wire::Sizing& sizing) {
  std::string out = sizing.workload + " needs " + gigabytes_text(sizing.vram_bytes);
  if (sizing.devices > 1) out += " on each of " + std::to_string(sizing.devices) + " devices";
  out += "; ask for " + gigabytes_text(sizing.recommended_bytes) + "\n\n";
  Table parts({{"PART"}, {"SIZE", Align::kRight}, {"HOW"}});
  for (const auto& part : sizing.parts) parts.add({part.name, gigabytes_text(part.bytes), part.how});
  return out + parts.text();
}

}  // namespace tranche::cli
