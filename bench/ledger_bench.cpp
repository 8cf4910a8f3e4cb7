// SPDX-License-Identifier: Apache-2.0
// The ledger and the meters in the engine, and postings made durable over the journal.
#include <chrono>
#include <ctime>
#include <filesystem>
#include <unistd.h>

#include "base/random.hpp"
#include "bench/bench.hpp"
#include "engine/market_world.hpp"
#include "engine/record.hpp"
#include "journal/sqlite_store.hpp"

namespace tranche::bench {
namespace {

using engine::MarketWorld;

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

engine::PostEntry transfer(const MarketWorld& world, Random& random) {
  const auto one = world.tenants[random.below(world.tenants.size())];
  const auto other = world.tenants[random.below(world.tenants.size())];
  const auto amount = static_cast<std::int64_t>(1 + random.below(1000));
  return {.legs = {{world.account(one), {-amount}}, {world.account(other), {amount}}},
          .memo = "",
          .reference = ""};
}

double postings_per_second() {
  constexpr int kPostings = 300'000;
  MarketWorld world(1000);
  Random random(1);
  const Envelope envelope = world.envelope(world.root);
  engine::Command command = transfer(world, random);
  const double start = processor_seconds();
  for (int i = 0; i < kPostings; ++i) {
    command = transfer(world, random);
    const auto decision = engine::decide(world.state, envelope, command);
    engine::apply_record(world.state, world.state.sequence + 1, envelope, *decision);
  }
  return kPostings / (processor_seconds() - start);
}

double durable_per_second() {
  constexpr int kBatch = 1000;
  std::string folder = (std::filesystem::current_path() / "tranche-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return -1;
  double rate = 0;
  {
    const auto store = journal::open_sqlite(folder);
    MarketWorld world(1000);
    Random random(1);
    const Envelope envelope = world.envelope(world.root);
    int done = 0;
    const auto start = std::chrono::steady_clock::now();
    std::chrono::duration<double> passed{};
    while (passed.count() < 3) {
      std::vector<std::string> bodies;
      for (int i = 0; i < kBatch; ++i) {
        const engine::Command command = transfer(world, random);
        const auto decision = engine::decide(world.state, envelope, command);
        engine::apply_record(world.state, world.state.sequence + 1, envelope, *decision);
        bodies.push_back(engine::encode_record(envelope, "ledger.post", *decision));
      }
      store->append(bodies, world.clock);
      done += kBatch;
      passed = std::chrono::steady_clock::now() - start;
    }
    rate = done / passed.count();
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return rate;
}

// Ten million intervals of a minute, of a lease for each of a thousand tenants, and their sums at the end.
double month_end_seconds() {
  constexpr std::uint64_t kIntervals = 10'000'000, kTenants = 1000;
  MarketWorld world(kTenants, units(10'000'000));
  engine::PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = {2'345'678}}}};
  static_cast<void>(world.run(engine::SetPriceList{list}, world.root));
  for (std::uint64_t i = 0; i < kTenants; ++i) {
    static_cast<void>(world.run(engine::OpenMeter{
        {.lease = {i + 1}, .job = {i + 1}, .party = world.traders[i], .model = "H100", .milli = 700}}));
  }
  const Instant begin = world.clock;
  engine::Command command = engine::RecordUsage{};
  auto& record = std::get<engine::RecordUsage>(command).record;
  const double start = processor_seconds();
  for (std::uint64_t i = 0; i < kIntervals; ++i) {
    const auto minute = std::chrono::minutes(i / kTenants);
    record.lease = {i % kTenants + 1};
    record.sequence = i / kTenants + 1;
    record.from = begin + minute;
    record.to = record.from + std::chrono::minutes(1);
    Envelope envelope;
    envelope.at = record.to;
    const auto decision = engine::decide(world.state, envelope, command);
    engine::apply_record(world.state, world.state.sequence + 1, envelope, *decision);
  }
  std::map<PartyId, std::int64_t> by_party;
  for (const auto& [key, line] : world.state.costs) by_party[key.party] += line.amount.micros;
  return by_party.size() == kTenants ? processor_seconds() - start : -1;
}

std::vector<Row> ledger_rows() {
  return {{.what = "postings decided and applied",
           .value = postings_per_second(),
           .unit = "postings/s of one core",
           .goal = 500'000,
           .peer = "TigerBeetle 160,000 to 302,000/s, durable and replicated",
           .peer_source = PeerSource::kQuoted},
          {.what = "postings made durable, batches of 1,000",
           .value = durable_per_second(),
           .unit = "postings/s",
           .goal = 50'000},
          {.what = "month of 1,000 tenants and 10,000,000 intervals charged and summed",
           .value = month_end_seconds(),
           .unit = "s of one core",
           .goal = 60,
           .better = Better::kLower}};
}

}  // namespace

Suite ledger_suite() {
  return {"ledger", "postings in the engine and over the journal, and the end of a month", ledger_rows};
}

}  // namespace tranche::bench
