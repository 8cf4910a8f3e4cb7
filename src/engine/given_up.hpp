// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tenants have less by leases that give way: by those that were asked already, or by those that would
// be.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// How somebody gives way, the least harm first: with a smaller slice while it runs, with one member less from
// its checkpoint, off its devices until they are free again, or stopped and started again.
enum class Yield : std::uint8_t { kResize, kMember, kPark, kStop };
constexpr std::size_t kYields = 4;

class GivenUp {
 public:
  // Everybody who was asked and has not left yet: he still counts as running.
  static GivenUp by_those_asked(const State&);

  void add(const State&, const Event&);  // Somebody is asked.
  void add(const State&, LeaseId, Yield how);

  // By this one, beyond what it gives already, in thousandths of a GPU: a gang is stopped whole.
  [[nodiscard]] std::int64_t more(const State&, LeaseId, Yield how) const;
  [[nodiscard]] std::int64_t by(PartyId tenant) const;
  [[nodiscard]] std::int64_t by_all() const;
  [[nodiscard]] bool names(LeaseId id) const { return of_lease_.contains(id); }
  [[nodiscard]] bool stops(JobId id) const { return stopped_.contains(id); }
  [[nodiscard]] std::uint32_t members_of(const Job&) const;

 private:
  void raise(const Lease&, std::int64_t milli);
  [[nodiscard]] std::int64_t of(LeaseId id) const;

  std::map<LeaseId, std::int64_t> of_lease_;
  std::map<PartyId, std::int64_t> by_tenant_;
  std::set<JobId> stopped_;
};

}  // namespace tranche::engine
