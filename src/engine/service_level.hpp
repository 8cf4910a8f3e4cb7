// SPDX-License-Identifier: Apache-2.0
#pragma once
// Service levels: what the platform promises a party's jobs, how often it kept it this month, and what it
// gives back when it did not.
#include <boost/describe/class.hpp>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/workload.hpp"

namespace tranche::engine {

struct LevelKey {
  PartyId party{};
  std::string name{};
  auto operator<=>(const LevelKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(LevelKey, (), (party, name))

struct LevelTerms {
  std::vector<wire::WorkloadKind> kinds{};  // Empty: all.
  Duration start_within{};                  // Of the submission; zero: nothing is promised about the start.
  bool keep_deadlines = false;              // Jobs with a deadline end by it.
  std::uint32_t target_permille = 990;      // So many of a thousand keep it.
  std::uint32_t credit_percent = 0;         // Of what a job cost, when it was not kept for it.
  std::uint32_t delivered_permille = 0;     // Of what is booked, so much is really there; zero: no promise.
  bool keep_objectives = false;             // Services answer within their latency objectives.
  std::uint32_t guarantee_permille = 0;     // Of its guarantee, as far as it asks for it; zero: no promise.
  bool operator==(const LevelTerms&) const = default;
};
BOOST_DESCRIBE_STRUCT(LevelTerms,
                      (),
                      (kinds,
                       start_within,
                       keep_deadlines,
                       target_permille,
                       credit_percent,
                       delivered_permille,
                       keep_objectives,
                       guarantee_permille))

// Requests of one service in one hour, and those that were answered within its objective.
struct Answering {
  std::string service{};  // Empty: it is not about a service.
  std::uint64_t requests = 0;
  std::uint64_t in_time = 0;
  bool operator==(const Answering&) const = default;
};
BOOST_DESCRIBE_STRUCT(Answering, (), (service, requests, in_time))

// What was booked in a window and how much of it was there, in milli-devices times seconds.
struct Delivery {
  ClaimId booking{};  // Zero: it is not about a window.
  std::int64_t promised = 0;
  std::int64_t missed = 0;
  [[nodiscard]] std::uint32_t permille() const {
    return promised <= 0 ? 1000U : static_cast<std::uint32_t>(Int128{promised - missed} * 1000 / promised);
  }
  bool operator==(const Delivery&) const = default;
};
BOOST_DESCRIBE_STRUCT(Delivery, (), (booking, promised, missed))

// What a party asked of its guarantee and did not get, day by day. In milli-devices and their seconds.
struct GuaranteeAccount {
  Instant day{};  // That is counted now.
  Instant since{};
  std::int64_t wanted_milli = 0;  // Of the guarantee, by what runs and what waits.
  std::int64_t missing_milli = 0;
  std::int64_t promised = 0;
  std::int64_t missed = 0;
  std::int64_t carried_promised = 0, carried_missed = 0;  // Microseconds below a second, times milli.
  bool operator==(const GuaranteeAccount&) const = default;
};
BOOST_DESCRIBE_STRUCT(
    GuaranteeAccount,
    (),
    (day, since, wanted_milli, missing_milli, promised, missed, carried_promised, carried_missed))

struct LevelMiss {
  JobId job{};
  Instant at{};
  Duration late{};        // By so much.
  bool start = false;     // It began late; else it ended late.
  Delivery delivery{};    // Or a window that was not all there.
  Answering answering{};  // Or a service that was too slow.
  Instant day{};          // Or a day on which the guarantee was not.
};
BOOST_DESCRIBE_STRUCT(LevelMiss, (), (job, at, late, start, delivery, answering, day))

// How a promise was kept in one month.
struct LevelMonth {
  Instant month{};  // Its beginning; zero: nothing is known of it.
  std::uint64_t kept = 0;
  std::uint64_t missed = 0;
  Money credited{};
  Delivery delivery{};   // Of all windows that closed in it.
  Delivery guarantee{};  // Of its days that are over.
};
BOOST_DESCRIBE_STRUCT(LevelMonth, (), (month, kept, missed, credited, delivery, guarantee))

struct ServiceLevel {
  LevelKey key{};
  LevelTerms terms{};
  Instant month{};  // That these count for.
  std::uint64_t kept = 0;
  std::uint64_t missed = 0;
  Money credited{};
  std::vector<LevelMiss> misses{};  // The last ones.
  std::vector<JobId> owing{};       // Jobs that run and will be given something back when they end.
  Delivery delivery{};              // Of all windows that closed this month.
  GuaranteeAccount account{};
  Delivery guarantee{};  // Of the days of this month that are over.
  LevelMonth before{};   // The month before that one.
};
BOOST_DESCRIBE_STRUCT(
    ServiceLevel,
    (),
    (key, terms, month, kept, missed, credited, misses, owing, delivery, account, guarantee, before))

struct SetLevel {
  LevelKey key{};
  LevelTerms terms{};
};
struct LevelSet {
  LevelKey key{};
  LevelTerms terms{};
};
BOOST_DESCRIBE_STRUCT(LevelSet, (), (key, terms))

struct RemoveLevel {
  LevelKey key{};
};
struct LevelRemoved {
  LevelKey key{};
};
BOOST_DESCRIBE_STRUCT(LevelRemoved, (), (key))

struct LevelJudged {
  LevelKey key{};
  PartyId owner{};
  JobId job{};
  bool start = false;     // Judged by its start; else by its end.
  Duration late{};        // Zero: it was kept.
  Money credit{};         // Given back now.
  Delivery delivery{};    // Of a window, instead of a job.
  Answering answering{};  // Of a service's hour, instead of both.
  Instant day{};          // Set: of what was guaranteed on this day.
  Instant hour{};         // Set: when the service's hour began.
};
BOOST_DESCRIBE_STRUCT(LevelJudged, (), (key, owner, job, start, late, credit, delivery, answering, day, hour))

struct GuaranteeNoted {  // How much of its guarantee the party asks for from now on, and does not have.
  LevelKey key{};
  PartyId owner{};
  std::int64_t wanted_milli = 0;
  std::int64_t missing_milli = 0;
};
BOOST_DESCRIBE_STRUCT(GuaranteeNoted, (), (key, owner, wanted_milli, missing_milli))

// A job that waits or runs, and may break a promise: more than half of the time to start has passed, or what
// it may still take reaches beyond its deadline.
struct LevelRisk {
  JobId job{};
  Duration left{};                 // Until it is broken; negative: it is.
  ClaimId booking{};               // Or an open window that is not all there.
  std::string service{};           // Or a service whose running hour is below the target.
  std::int64_t missing_milli = 0;  // Or so much of the guarantee: asked for now, or not in service at all.
  bool out_of_service = false;
};

}  // namespace tranche::engine
