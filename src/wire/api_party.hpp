// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bodies of the API about who: parties, roles, quotas, rules, tokens. A party is named by id or by path.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/quota.hpp"
#include "wire/role.hpp"
#include "wire/rules.hpp"

namespace tranche::wire {

using namespace std::string_view_literals;

struct PartyView {
  PartyId id{};
  PartyKind kind = PartyKind::kTenant;
  std::string name{};
  std::string path{};
  PartyId parent{};
  std::string time_zone{};
  bool disabled = false;
  Instant created{};
  std::uint64_t version = 0;
};
BOOST_DESCRIBE_STRUCT(PartyView, (), (id, kind, name, path, parent, time_zone, disabled, created, version))

struct PartyList {
  std::vector<PartyView> items{};
  std::string next{};  // The cursor of the next page; empty: this is the last.
};
BOOST_DESCRIBE_STRUCT(PartyList, (), (items, next))

struct NewParty {
  std::string name{};
  std::string parent{};  // Id or path; tenants have none.
  std::string time_zone{};
  std::vector<Role> roles{};  // Of a new user or service account, at its parent; none given: member.
};
BOOST_DESCRIBE_STRUCT(NewParty, (), (name, parent, time_zone, roles))
template <>
struct Fields<NewParty> {
  static constexpr std::array kRequired{"name"sv};
};

struct PartyPatch {  // What is absent stays as it is.
  std::optional<std::string> name{};
  std::optional<std::string> time_zone{};
  std::optional<bool> disabled{};
};
BOOST_DESCRIBE_STRUCT(PartyPatch, (), (name, time_zone, disabled))

struct RoleBinding {
  std::string at{};
  std::string holder{};
  Role role = Role::kViewer;
};
BOOST_DESCRIBE_STRUCT(RoleBinding, (), (at, holder, role))
template <>
struct Fields<RoleBinding> {
  static constexpr std::array kRequired{"at"sv, "holder"sv, "role"sv};
};

struct RoleList {
  std::vector<RoleBinding> items{};
};
BOOST_DESCRIBE_STRUCT(RoleList, (), (items))

struct Whoami {
  PartyView party{};
  Scope scope = Scope::kAdmin;
  std::vector<RoleBinding> roles{};
  std::string server_version{};
};
BOOST_DESCRIBE_STRUCT(Whoami, (), (party, scope, roles, server_version))

// Units of the running period: a quota on them is kept when done and promised stay within it.
struct UnitUse {
  std::optional<std::int64_t> limit{};
  std::int64_t done = 0;
  std::int64_t promised = 0;  // To jobs that were admitted with so many, and are not through.
  Instant until{};            // The period ends.
};
BOOST_DESCRIBE_STRUCT(UnitUse, (), (limit, done, promised, until))

struct QuotaView {
  PartyId party{};
  std::string path{};
  Quota quota{};
  Usage usage{};
  std::uint64_t version = 0;
  std::map<std::string, UnitUse> units{};  // That are limited, or were done in this period.
};
BOOST_DESCRIBE_STRUCT(QuotaView, (), (party, path, quota, usage, version, units))

struct RulesBody {
  std::vector<Rule> rules{};
};
BOOST_DESCRIBE_STRUCT(RulesBody, (), (rules))
template <>
struct Fields<RulesBody> {
  static constexpr std::array kRequired{"rules"sv};
};

struct RulesView {
  PartyId party{};
  std::string path{};
  std::vector<Rule> rules{};
  std::uint64_t version = 0;
};
BOOST_DESCRIBE_STRUCT(RulesView, (), (party, path, rules, version))

struct NewToken {
  std::string party{};  // Id or path; empty: oneself.
  std::string label{};
  Scope scope = Scope::kAdmin;
  std::optional<Duration> expires_in{};
};
BOOST_DESCRIBE_STRUCT(NewToken, (), (party, label, scope, expires_in))

struct TokenView {
  TokenId id{};
  PartyId party{};
  std::string path{};
  std::string label{};
  Scope scope = Scope::kAdmin;
  Instant created{};
  std::optional<Instant> expires{};
  bool revoked = false;
};
BOOST_DESCRIBE_STRUCT(TokenView, (), (id, party, path, label, scope, created, expires, revoked))

struct TokenList {
  std::vector<TokenView> items{};
};
BOOST_DESCRIBE_STRUCT(TokenList, (), (items))

struct IssuedToken {
  TokenView token{};
  std::string secret{};  // Shown once, stored nowhere.
};
BOOST_DESCRIBE_STRUCT(IssuedToken, (), (token, secret))

struct NewPassword {
  std::string password{};
};
BOOST_DESCRIBE_STRUCT(NewPassword, (), (password))
template <>
struct Fields<NewPassword> {
  static constexpr std::array kRequired{"password"sv};
};

struct Login {
  std::string user{};  // Id or path.
  std::string password{};
};
BOOST_DESCRIBE_STRUCT(Login, (), (user, password))
template <>
struct Fields<Login> {
  static constexpr std::array kRequired{"user"sv, "password"sv};
};

}  // namespace tranche::wire
