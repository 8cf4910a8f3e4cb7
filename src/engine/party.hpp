// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parties: the tree of who. Platform, tenants, their subscribers (which nest), users and service accounts.
//
// Limits, rules and roles hang on every node of the tree; what is bound to a node holds for all below it.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "engine/quota.hpp"
#include "engine/rules.hpp"
#include "wire/role.hpp"

namespace tranche::engine {

using wire::Role;

struct Grant {  // Who holds a role at the party that lists it, and so for everything below that party.
  PartyId holder{};
  Role role = Role::kViewer;
  auto operator<=>(const Grant&) const = default;
};
BOOST_DESCRIBE_STRUCT(Grant, (), (holder, role))

struct Party {
  PartyId id{};
  PartyId parent{};
  std::string name{};       // Unique among its siblings; the path of names (acme/research/ana) names it too.
  std::string time_zone{};  // IANA; how its windows and billing periods are read.
  bool disabled = false;    // Its tokens are refused and nothing below it is admitted.
  Instant created{};
  std::uint64_t version = 0;  // Sequence of the record that changed it last: the ETag.
  Quota quota{};
  Rules rules{};
  std::vector<Grant> grants{};
  std::string password_hash{};  // argon2id, users only; empty: cannot log in with a password.
  Usage usage{};                // What its subtree holds now.
};
BOOST_DESCRIBE_STRUCT(
    Party,
    (),
    (id, parent, name, time_zone, disabled, created, version, quota, rules, grants, password_hash, usage))

struct CreateParty {
  PartyKind kind = PartyKind::kTenant;
  PartyId parent{};
  std::string name{};
  std::string time_zone{};
  std::vector<Role> roles{};  // Granted to a new user or service account at its parent.
};
struct PartyCreated {
  PartyId id{};
  PartyId parent{};
  std::string name{};
  std::string time_zone{};
};
BOOST_DESCRIBE_STRUCT(PartyCreated, (), (id, parent, name, time_zone))

struct ChangeParty {
  PartyId id{};
  std::string name{};
  std::string time_zone{};
  bool disabled = false;
  std::uint64_t if_version = 0;  // Zero: whatever it is now.
};
struct PartyChanged {
  PartyId id{};
  std::string name_before{}, name{};
  std::string time_zone_before{}, time_zone{};
  bool disabled_before = false, disabled = false;
};
BOOST_DESCRIBE_STRUCT(PartyChanged,
                      (),
                      (id, name_before, name, time_zone_before, time_zone, disabled_before, disabled))

struct GrantRole {
  PartyId at{};
  PartyId holder{};
  Role role = Role::kViewer;
};
struct RoleGranted {
  PartyId at{};
  PartyId holder{};
  Role role = Role::kViewer;
};
BOOST_DESCRIBE_STRUCT(RoleGranted, (), (at, holder, role))

struct RevokeRole {
  PartyId at{};
  PartyId holder{};
  Role role = Role::kViewer;
};
struct RoleRevoked {
  PartyId at{};
  PartyId holder{};
  Role role = Role::kViewer;
};
BOOST_DESCRIBE_STRUCT(RoleRevoked, (), (at, holder, role))

struct SetPassword {
  PartyId user{};
  std::string password_hash{};
};
struct PasswordSet {
  PartyId user{};
  std::string password_hash{};
};
BOOST_DESCRIBE_STRUCT(PasswordSet, (), (user, password_hash))

}  // namespace tranche::engine
