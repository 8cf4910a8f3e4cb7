// SPDX-License-Identifier: Apache-2.0
#include "engine/record.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "base/random.hpp"
#include "engine/money_samples.hpp"
#include "engine/snapshot.hpp"
#include "engine/work_samples.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

std::string bytes(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return out;
}

// One of each event of version 1. A field added later keeps its default here, and gets a sample of its own.
Events one_of_each() {
  const PartyId ana = PartyId::make(PartyKind::kUser, 5);
  const PartyId acme = PartyId::make(PartyKind::kTenant, 2);
  TokenHash hash{};
  hash.fill(0xAB);
  Quota quota;
  quota.gpu_milli = {.guaranteed = 4000, .limit = 8000};
  quota.devices = {{"H100-SXM5-80GB", {.guaranteed = {}, .limit = 1000}}};
  quota.spend = units(10);
  quota.isolation = std::vector{Isolation::kHard};
  Rules rules{
      .rules = {{.name = "night",
                 .when = {.kinds = {WorkloadKind::kTraining}, .outside = Hours{"22:00", "06:00", "UTC", {}}},
                 .then = {.deny = true}}},
      .zones = {{"UTC", {{Instant{}, 0}}}}};
  Ask ask{.kind = WorkloadKind::kRender,
          .isolation = Isolation::kHard,
          .priority = 70,
          .preemptible = true,
          .instances = 2,
          .milli_each = 500,
          .vram_each = 40'000'000'000,
          .model = "H100-SXM5-80GB",
          .sku = "large",
          .model_millions = 7000,
          .storage_bytes = 1,
          .time = std::chrono::hours(1),
          .spend = units(3),
          .labels = {{"team", "film"}}};
  const Refusal refusal{.reason = Reason::kQuota,
                        .rule = "gpu_milli",
                        .where = "acme",
                        .message = "too much",
                        .fix = "less",
                        .limit = 1,
                        .used = 2,
                        .asked = 3};
  const wire::DeviceFacts facts{.uuid = "GPU-1",
                                .vendor = wire::GpuVendor::kNvidia,
                                .model = "H100-SXM5-80GB",
                                .vram = gigabytes(80),
                                .profiles = {{"1g.10gb", 1, 1, 0x7F, 7, gigabytes(10)}},
                                .soft_capable = true};
  const BookedWindow window{.from = Instant(std::chrono::hours(4)),
                            .to = Instant(std::chrono::hours(5)),
                            .places = {{{7}, {{{3}, 500, 1000, 2}}}}};
  Events all{
      Founded{ana},
      PartyCreated{ana, acme, "ana", "Europe/Madrid"},
      PartyChanged{ana, "ana", "anna", "UTC", "Europe/Madrid", false, true},
      RoleGranted{acme, ana, Role::kAuditor},
      RoleRevoked{acme, ana, Role::kAuditor},
      PasswordSet{ana, "$argon2id$"},
      QuotaSet{acme, {}, quota},
      RulesSet{acme, {}, rules},
      TokenIssued{{3}, ana, "laptop", Scope::kJobs, hash, Instant(std::chrono::hours(1))},
      TokenRevoked{{3}, ana},
      JobSubmitted{{9}, ana, Admission::kOnDemand, units(6), "render", ask, "{\"run\":\"true\"}"},
      JobEnded{{9}, ana, JobState::kStopped},
      SkuSet{{}, {"large", 1000, 80'000'000'000}},
      SettingsChanged{{}, {.on_demand_gpu_hour = units(3)}},
      Denied{"job.submit", ana, refusal},
      Ticked{4, 5},
      NodeAdded{{7}, "gpu-01", acme, "madrid", {{"rack", "r1"}}, hash, Instant(std::chrono::hours(2))},
      NodeInvitationUsed{{7}},
      NodeReported{{7}, "boot", "0.1.0", 64, gigabytes(512), {{"rack", "r1"}}, true, {{{3}, facts}}},
      NodeStateChanged{{7}, NodeState::kReady, NodeState::kLost, "silent"},
      NodeChanged{{7}, false, true, false, true, {}, {{"rack", "r2"}}},
      DeviceStateChanged{{3}, DeviceState::kHealthy, DeviceState::kLost, "gone"},
      LeaseGranted{{8}, {9}, 2, 1, {7}, 77, ana, acme, Isolation::kSoft, 4, {{{3}, 500, 1000, 2}}, "idle"},
      LeaseRevoked{
          {8}, RevokeWay::kCheckpoint, EndReason::kPreempted, std::chrono::seconds(30), "owner", {10}, ana},
      LeaseReported{{7}, 5, {.lease = {8}, .epoch = 77, .state = LeaseState::kEnded, .exit_code = 1}, ana},
      UsageMetered{{7}, 6, {{.lease = {8}, .epoch = 77, .sequence = 1, .device_nanoseconds = 12}}},
      ReceiptsKept{{7}, 7, {.scrubs = {{.device = {3}, .lease = {8}, .zeroed = gigabytes(1)}}}},
      HealthSignalled{{7}, 8, {3}, {.uuid = "GPU-1", .source = "xid", .code = 79}},
      JobRequeued{{9}, EndReason::kPreempted, Instant(std::chrono::hours(3)), "owner asked", ana},
      JobStopRequested{{9}, ana},
      WindowsBooked{.id = {4},
                    .owner = ana,
                    .tenant = acme,
                    .name = "class",
                    .ask = ask,
                    .trust_group = 3,
                    .zone = "Europe/Madrid",
                    .recurrence = "FREQ=DAILY;COUNT=1",
                    .environment = {.layer = wire::Layer::kSlurm, .driver = "535", .volumes = {"data"}},
                    .windows = {window}},
      BookingCancelled{{4}, ana},
      WindowOpened{{4}, 1, ana},
      WindowClosed{{4}, 1, ana},
      WindowMoved{{4}, 1, window.places, "node lost", ana},
      WindowsChanged{{4}, {window}, "sold on", ana},
      WindowShort{{4}, 1, 500, ana}};
  for (Event& event : money_samples()) all.push_back(std::move(event));
  const HealthPolicy strict{
      .acceptance = TestLevel::kFull,
      .tables = {{.version = "ours-3",
                  .family = "nvidia",
                  .rows = {{.source = "xid", .codes = {79}, .means = "it left the bus"}}}}};
  for (Event& event : Events{DeviceOrdered{{3}, 4, DeviceTask::kAccept, TestLevel::kStandard, 1},
                             DeviceMarked{{3}, WhenIdle::kReset, true, true},
                             RepairOpened{5, {3}, "xid 79"},
                             RepairChanged{5,
                                           RepairState::kOpen,
                                           RepairState::kAccepted,
                                           "RMA-1",
                                           Instant(std::chrono::hours(9)),
                                           "sent"},
                             HealthPolicySet{{.acceptance = TestLevel::kQuick}, strict},  // The default then.
                             BreakerChanged{true, 4, "too many"},
                             DevicesLeft{{8}, acme, true}})
    all.push_back(std::move(event));
  all.push_back(VolumeCreated{{4}, acme, "weights", 1000, {7}, {3}});
  all.push_back(VolumeRemoved{{4}, acme, "weights"});
  all.push_back(VolumeWorked{
      {7},
      9,
      {.volume = {4}, .work = wire::VolumeWork::kWipe, .done = true, .files = 2, .method = "zeros"},
      acme});
  for (Event& event : work_samples()) all.push_back(std::move(event));
  all.push_back(StorageCharged{{4},
                               acme,
                               AccountId::make(acme, AccountKind::kCredit, *Currency::of("EUR")),
                               Instant(std::chrono::hours(3)),
                               Instant(std::chrono::hours(4)),
                               "disk",
                               {15'000},
                               {5'000},
                               77});
  all.push_back(JobHeld{{9}, ana, EndReason::kNodeFault, 137, 9, "the node went away"});
  all.push_back(HeldJobReleased{{9}, ana});
  return all;
}

Envelope sample_envelope() {
  return {.at = Instant(std::chrono::hours(500'000)),
          .seed = 42,
          .actor = PartyId::make(PartyKind::kUser, 5),
          .token = {3},
          .origin = "192.0.2.7",
          .request_id = "req-1",
          .idempotency = {1, 2},
          .body_hash = 77};
}

TEST_CASE("record: one of each event is read back as it was written") {
  const Events events = one_of_each();
  CHECK(events.size() == std::variant_size_v<EventVariant>);
  const std::string bytes = encode_record(sample_envelope(), "job.submit", events);
  const auto record = decode_record(bytes);
  REQUIRE(record);
  CHECK(record->command == "job.submit");
  CHECK(encode_record(record->envelope, record->command, record->events) == bytes);
  for (std::size_t i = 0; i < events.size(); ++i)
    CHECK(event_json(record->events[i]) == event_json(events[i]));
}

// For whoever adds an event: writes its sample once. What is there already is never written again.
void add_missing_samples(std::map<std::string, std::string>& lines) {
  std::ofstream file(std::string(TRANCHE_SOURCE_DIR) + "/src/engine/testdata/events_v1.hex", std::ios::app);
  for (const Event& event : one_of_each()) {
    if (lines.contains(event_name(event))) continue;
    std::ostringstream hex;
    for (const char c : encode_record(sample_envelope(), "golden", {event}))
      hex << std::hex << std::setw(2) << std::setfill('0') << (static_cast<unsigned>(c) & 0xFFU);
    lines[event_name(event)] = hex.str();
    file << event_name(event) << ' ' << hex.str() << '\n';
  }
}

// Whoever changes the encoding breaks every journal in the field; the golden file says so first.
TEST_CASE("record: the sample of every event version decodes for ever") {
  std::ifstream file(std::string(TRANCHE_SOURCE_DIR) + "/src/engine/testdata/events_v1.hex");
  REQUIRE(file.good());
  std::string name;
  std::string golden;
  std::map<std::string, std::string> lines;
  while (file >> name >> golden) lines[name] = golden;
  if (std::getenv("TRANCHE_WRITE_SAMPLES") != nullptr) add_missing_samples(lines);
  for (const Event& event : one_of_each()) {
    CAPTURE(event_name(event));
    const auto record = decode_record(bytes(lines[event_name(event)]));
    REQUIRE(record);
    CHECK(event_json(record->events.front()) == event_json(event));
    CHECK(record->envelope.request_id == "req-1");
  }
  CHECK(lines.size() == std::variant_size_v<EventVariant>);
}

TEST_CASE("record: an event of a later version stops the reader with its number") {
  std::string bytes = encode_record({}, "x", {Ticked{}});
  bytes[bytes.size() - 4] = 99;  // The event's number, before its length and two counts.
  const auto record = decode_record(bytes);
  REQUIRE_FALSE(record);
  CHECK(record.error() == "event number 99 is not known to this version");
}

TEST_CASE("record: no damage crashes the reader") {
  const std::string good = encode_record(sample_envelope(), "job.submit", one_of_each());
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good.substr(0, random.below(good.size() + 1));
    for (int flips = 0; flips < 3 && !bad.empty(); ++flips) {
      bad[random.below(bad.size())] = static_cast<char>(random.below(256));
    }
    static_cast<void>(decode_record(bad));
  }
}

TEST_CASE("record: secrets do not leave the engine") {
  for (const Event& event : one_of_each()) {
    CHECK(event_json(event).find("argon2id") == std::string::npos);
    CHECK(event_json(event).find("171") == std::string::npos);  // 0xAB, a byte of the token's hash.
  }
}

TEST_CASE("snapshot: snapshot and tail give the state that the whole journal gives, at any cut") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    World world;
    const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
    const PartyId ana = world.user(acme, "ana");
    std::vector<std::string> journal;
    std::vector<std::string> states;
    for (int step = 0; step < 100; ++step) {
      world.clock += std::chrono::minutes(random.below(2000));
      Envelope envelope = world.envelope(ana);
      envelope.idempotency = {random.next(), random.next()};
      Command command = SubmitJob{.name = "n", .ask = gpus(1), .spec = "{}"};
      if (random.below(3) == 0 && world.state.next_job > 1)
        command = StopJob{{1 + random.below(world.state.next_job - 1)}};
      if (random.below(10) == 0) command = Tick{};
      const auto decision = world.run(envelope, command);
      if (!decision) continue;
      journal.push_back(encode_record(envelope, command_name(command), *decision));
      states.push_back(encode_state(world.state));
    }
    for (std::size_t cut = 0; cut < journal.size(); cut += 7) {
      auto state = decode_state(states[cut]);
      REQUIRE(state);
      for (std::size_t i = cut + 1; i < journal.size(); ++i) {
        const auto record = decode_record(journal[i]);
        REQUIRE(record);
        apply_record(*state, state->sequence + 1, record->envelope, record->events);
      }
      CHECK(encode_state(*state) == states.back());
      CHECK(state->index.by_name == world.state.index.by_name);
      CHECK(state->index.by_hash == world.state.index.by_hash);
      CHECK(state->index.jobs_by_owner[ana] == world.state.index.jobs_by_owner[ana]);
    }
  }
}

}  // namespace
}  // namespace tranche::engine
