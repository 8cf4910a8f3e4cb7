// SPDX-License-Identifier: Apache-2.0
#include "engine/focus_cells.hpp"

#include "base/text.hpp"
#include "wire/json_writer.hpp"

namespace tranche::engine {

std::string instant_cell(Instant at) {
  std::string out;
  append_text(out, std::chrono::floor<std::chrono::seconds>(at));
  const auto point = out.find('.');
  return point == std::string::npos ? out : out.substr(0, point) + "Z";
}

std::string gpu_hours_cell(std::int64_t milli_milliseconds) {  // Six decimals, rounded down.
  return text(Money{static_cast<std::int64_t>(Int128{milli_milliseconds} * 1'000'000 / 3'600'000'000)});
}

std::string gib_hours_cell(std::int64_t mib_seconds) {  // Likewise.
  return text(Money{static_cast<std::int64_t>(Int128{mib_seconds} * 1'000'000 / (1024 * 3600))});
}

std::string kind_cell(PartyId party) {
  switch (party.kind()) {
    case PartyKind::kPlatform:
      return "Platform";
    case PartyKind::kTenant:
      return "Tenant";
    case PartyKind::kSubscriber:
      return "Subscriber";
    case PartyKind::kUser:
      return "User";
    case PartyKind::kService:
      return "Service account";
  }
  return {};
}

void append_cell(std::string& out, std::string_view value) {  // An empty text is null.
  if (value.find_first_of(",\"\n") == std::string_view::npos) {
    out += value;
    return;
  }
  out += '"';
  for (const char c : value) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  out += '"';
}

std::string labels_cell(const std::map<std::string, std::string>& labels) {
  if (labels.empty()) return {};
  std::string out;
  for (const auto& [name, value] : labels) {
    out += out.empty() ? '{' : ',';
    wire::append_json_string(out, name);
    out += ':';
    wire::append_json_string(out, value);
  }
  return out + '}';
}

}  // namespace tranche::engine
