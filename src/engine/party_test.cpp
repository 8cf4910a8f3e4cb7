// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "engine/access.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

struct Company : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId research = create(PartyKind::kSubscriber, acme, "research");
  PartyId blue = create(PartyKind::kTenant, kPlatform, "blue");
  PartyId ana = user(research, "ana");
  PartyId boss = user(acme, "boss", {Role::kTenantAdmin});
  PartyId spy = user(blue, "spy", {Role::kTenantAdmin});
};

TEST_CASE("party: a path names what its id names") {
  const Company world;
  CHECK(path_of(world.state, world.ana) == "acme/research/ana");
  CHECK(find_path(world.state, "acme/research/ana") == world.ana);
  CHECK(find_path(world.state, text(world.ana)) == world.ana);
  CHECK(find_path(world.state, "acme/nobody") == PartyId{});
  CHECK(find_path(world.state, "acme/") == PartyId{});
}

TEST_CASE("party: a name is taken once among siblings, and again elsewhere") {
  Company world;
  const auto again =
      world.run(CreateParty{.kind = PartyKind::kTenant, .parent = kPlatform, .name = "acme"}, world.root);
  REQUIRE_FALSE(again);
  CHECK(again.error().reason == Reason::kConflict);
  CHECK(world.run(CreateParty{.kind = PartyKind::kSubscriber, .parent = world.blue, .name = "acme"},
                  world.root));
}

TEST_CASE("party: names that could be mistaken for something else are refused") {
  Company world;
  for (const char* name : {"", "-a", "A", "a b", "a/b", "platform", "ten_000001", "../x", "a\n"}) {
    CAPTURE(name);
    const auto made =
        world.run(CreateParty{.kind = PartyKind::kTenant, .parent = kPlatform, .name = name}, world.root);
    REQUIRE_FALSE(made);
    CHECK(made.error().reason == Reason::kInvalid);
  }
}

TEST_CASE("party: someone else's node answers like one that does not exist") {
  Company world;
  const PartyId missing = PartyId::make(PartyKind::kSubscriber, 999);
  const auto foreign =
      world.run(CreateParty{.kind = PartyKind::kUser, .parent = world.research, .name = "x"}, world.spy);
  const auto absent =
      world.run(CreateParty{.kind = PartyKind::kUser, .parent = missing, .name = "x"}, world.spy);
  REQUIRE_FALSE(foreign);
  REQUIRE_FALSE(absent);
  CHECK(foreign.error() == absent.error());
  CHECK(foreign.error().reason == Reason::kNotFound);
}

TEST_CASE("party: what one sees but may not change is forbidden, not hidden") {
  Company world;
  const auto made =
      world.run(CreateParty{.kind = PartyKind::kUser, .parent = world.research, .name = "x"}, world.ana);
  REQUIRE_FALSE(made);
  CHECK(made.error().reason == Reason::kForbidden);
}

TEST_CASE("party: an administrator rules what is below him, and grants no more than he holds") {
  Company world;
  CHECK(world.run(CreateParty{.kind = PartyKind::kSubscriber, .parent = world.research, .name = "deep"},
                  world.boss));
  CHECK(world.run(GrantRole{world.acme, world.ana, Role::kTenantAdmin}, world.boss));
  const auto owner = world.run(GrantRole{kPlatform, world.ana, Role::kPlatformOwner}, world.boss);
  REQUIRE_FALSE(owner);
  CHECK(owner.error().reason == Reason::kForbidden);
}

TEST_CASE("party: a disabled tenant's tokens are refused") {
  Company world;
  CHECK(world.run(SubmitJob{.ask = gpus(1)}, world.ana));
  CHECK(world.run(ChangeParty{.id = world.acme, .name = "acme", .disabled = true}, world.root));
  CHECK_FALSE(world.run(SubmitJob{.ask = gpus(1)}, world.ana));
  CHECK_FALSE(actor_of(world.state, world.envelope(world.ana)));
}

TEST_CASE("party: a change made on an old version is refused") {
  Company world;
  const auto version = world.state.party(world.acme)->version;
  CHECK(world.run(ChangeParty{.id = world.acme, .name = "acme2", .if_version = version}, world.root));
  const auto second =
      world.run(ChangeParty{.id = world.acme, .name = "acme3", .if_version = version}, world.root);
  REQUIRE_FALSE(second);
  CHECK(second.error().reason == Reason::kStale);
  CHECK(find_path(world.state, "acme2") == world.acme);
  CHECK(find_path(world.state, "acme") == PartyId{});
}

TEST_CASE("party: the last owner of the platform stays") {
  Company world;
  CHECK_FALSE(world.run(RevokeRole{kPlatform, world.root, Role::kPlatformOwner}, world.root));
  CHECK_FALSE(world.run(ChangeParty{.id = world.root, .name = "root", .disabled = true}, world.root));
}

TEST_CASE("token: revoked and expired ones are refused, and none is wider than its issuer") {
  Company world;
  TokenHash hash{};
  hash[3] = 9;
  const auto issued = world.run(IssueToken{.party = world.ana,
                                           .scope = Scope::kRead,
                                           .hash = hash,
                                           .expires = world.clock + std::chrono::hours(1)},
                                world.ana);
  REQUIRE(issued);
  const TokenId narrow = std::get<TokenIssued>(issued->front()).id;
  Envelope read_only = world.envelope(world.ana);
  read_only.token = narrow;
  const auto refused = world.run(read_only, SubmitJob{.ask = gpus(1)});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kForbidden);
  CHECK_FALSE(world.run(read_only, IssueToken{.party = world.ana, .scope = Scope::kAdmin}));
  world.clock += std::chrono::hours(2);
  Envelope late = world.envelope(world.ana);
  late.token = narrow;
  CHECK_FALSE(actor_of(world.state, late));
  CHECK(world.run(RevokeToken{world.tokens[world.ana]}, world.boss));
  CHECK_FALSE(world.run(SubmitJob{.ask = gpus(1)}, world.ana));
}

TEST_CASE("token: an administrator cannot take over somebody who may do more") {
  Company world;
  CHECK(world.run(GrantRole{kPlatform, world.ana, Role::kPlatformOwner}, world.root));
  const auto stolen = world.run(IssueToken{.party = world.ana}, world.boss);
  REQUIRE_FALSE(stolen);
  CHECK(stolen.error().reason == Reason::kForbidden);
}

}  // namespace
}  // namespace tranche::engine
