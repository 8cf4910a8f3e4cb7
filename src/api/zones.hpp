// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time zones, resolved at the edge: the engine is given offsets and instants, never a name to look up.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "wire/rules.hpp"

namespace tranche::api {

using LocalTime = std::chrono::local_seconds;

// Every change of a zone's offset from 2020 to the end of `until`; nullopt when there is no such zone.
[[nodiscard]] std::optional<std::vector<wire::ZoneOffset>> zone_offsets(const std::string& name,
                                                                        int until = 2044);

// Adds the offsets of a zone, where there is such a zone.
void resolve_zone(const std::string& name, wire::Zones& zones);
// Fills in the offsets of every zone that the rules name. Zones that do not exist are left out.
[[nodiscard]] wire::Rules resolve_zones(std::vector<wire::Rule> rules);

// Between clocks on the wall and instants, from 2020 to 2099.
class Zone {
 public:
  // Nothing when there is no such zone. Read once, then shared.
  [[nodiscard]] static std::shared_ptr<const Zone> find(const std::string& name);

  [[nodiscard]] LocalTime local(Instant at) const;
  [[nodiscard]] std::chrono::seconds offset(Instant at) const;
  // As RFC 5545 reads it: a time that the clocks show twice is the first one; a time they skip is counted
  // with the offset before the gap.
  [[nodiscard]] Instant instant(LocalTime local) const;
  // The first instant that shows this local time or a later one.
  [[nodiscard]] Instant first_instant(LocalTime local) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<wire::ZoneOffset>& offsets() const { return offsets_; }

 private:
  std::string name_;
  std::vector<wire::ZoneOffset> offsets_;  // In order; the first holds since ever.
};

}  // namespace tranche::api
