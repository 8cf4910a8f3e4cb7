// SPDX-License-Identifier: Apache-2.0
#pragma once
// What was asked for, by whom and when, and what is to be expected of the hours to come.
//
// A memo like Capacity: it follows from the leases that the state keeps, and is outside its hash.
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "engine/job.hpp"
#include "engine/lease.hpp"
#include "policy/demand_forecast.hpp"

namespace tranche::engine {

struct State;

struct DemandClass {
  std::uint8_t priority = 0;
  PartyId tenant{};
  wire::WorkloadKind kind{};
  auto operator<=>(const DemandClass&) const = default;
};

struct ProfileClass {  // Hardware partitions, by who wants them how urgently.
  std::uint8_t priority = 0;
  std::string profile{};
  auto operator<=>(const ProfileClass&) const = default;
};

class Demand {
 public:
  static std::unique_ptr<Demand> rebuilt(const State&);

  void ended(const Lease&, const Job&);
  // Milli-devices that work above this priority is expected to want in the hour that starts then, on average.
  [[nodiscard]] std::int64_t expected_above(std::uint8_t priority, Instant hour) const;
  [[nodiscard]] std::int64_t expected(const DemandClass&, Instant hour) const;
  // Partitions of such a kind expected to be in use at once in the hour, in thousandths of one.
  [[nodiscard]] std::int64_t expected(const ProfileClass&, Instant hour) const;
  [[nodiscard]] const std::map<ProfileClass, policy::DemandForecast>& profiles() const { return profiles_; }
  // How long such work has run on average; zero: none has ended yet.
  [[nodiscard]] Duration usual_run(const DemandClass&) const;

  struct History {
    policy::DemandForecast forecast{};
    std::int64_t runs = 0;
    std::int64_t seconds = 0;
  };
  [[nodiscard]] const std::map<DemandClass, History>& classes() const { return classes_; }

 private:
  std::map<DemandClass, History> classes_;
  std::map<ProfileClass, policy::DemandForecast> profiles_;
};

[[nodiscard]] Instant hour_start(Instant at);

}  // namespace tranche::engine
