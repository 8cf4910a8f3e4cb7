// SPDX-License-Identifier: Apache-2.0
#include "api/audit_view.hpp"

#include <doctest/doctest.h>

#include "engine/world.hpp"

namespace tranche::api {
namespace {

using engine::gpus;

struct Shared : engine::World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId blue = create(PartyKind::kTenant, kPlatform, "blue");
  PartyId ana = user(acme, "ana");
  PartyId lee = user(blue, "lee");
  PartyId eve = user(acme, "eve", {engine::Role::kAuditor});

  // One pass that lets a job of each tenant start.
  engine::Record pass() {
    node("n1", 2);
    submit(ana, gpus(1));
    submit(lee, gpus(1));
    engine::Record record{.envelope = envelope({}), .command = "schedule"};
    record.envelope.origin = "local";
    auto events = run(record.envelope, engine::Schedule{});
    REQUIRE(events);
    record.events = std::move(*events);
    return record;
  }
  [[nodiscard]] engine::Actor as(PartyId party) const { return *engine::actor_of(state, envelope(party)); }
};

std::size_t count(const wire::AuditEntry& entry, std::string_view type) {
  std::size_t found = 0;
  for (const auto& event : entry.events) found += event.text.find(type) != std::string::npos;
  return found;
}

TEST_CASE("audit: of a record that concerns several tenants everybody sees his own part alone") {
  Shared world;
  const engine::Record record = world.pass();
  std::size_t grants = 0;
  for (const auto& event : record.events) grants += std::holds_alternative<engine::LeaseGranted>(event);
  REQUIRE(grants == 2);
  const auto all = audit_entry(world.state, world.as(world.root), 9, record);
  CHECK(count(all, "lease_granted") == 2);
  const auto own = audit_entry(world.state, world.as(world.eve), 9, record);
  CHECK(count(own, "lease_granted") == 1);
  for (const auto& event : own.events) CHECK(event.text.find(text(world.lee)) == std::string::npos);
  CHECK(own.about_path == "acme/ana");
}

TEST_CASE("audit: what somebody of another tenant did says neither who nor from where") {
  Shared world;
  engine::Record record = world.pass();
  record.envelope.actor = world.lee;
  record.envelope.origin = "192.0.2.7";
  record.envelope.request_id = "req_9";
  const auto own = audit_entry(world.state, world.as(world.eve), 9, record);
  CHECK(own.actor == PartyId{});
  CHECK((own.actor_path + own.origin + own.request_id).empty());
  record.envelope.actor = world.root;  // The operator's acts are told with his name.
  CHECK(audit_entry(world.state, world.as(world.eve), 9, record).actor_path == "root");
  CHECK(audit_entry(world.state, world.as(world.root), 9, record).origin == "192.0.2.7");
}

TEST_CASE("audit: a record of others alone is not shown at all") {
  Shared world;
  engine::Record record = world.pass();
  std::erase_if(record.events,
                [&](const auto& event) { return engine::party_concerned(event) != world.lee; });
  REQUIRE_FALSE(record.events.empty());
  CHECK_FALSE(can_audit(world.state, world.as(world.eve), record));
  CHECK(can_audit(world.state, world.as(world.root), record));
}

}  // namespace
}  // namespace tranche::api
