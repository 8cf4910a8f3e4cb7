// SPDX-License-Identifier: Apache-2.0
#pragma once
// The platform itself: its founding, its settings, denials worth keeping, and the passing of time.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>

#include "base/ids.hpp"
#include "engine/token.hpp"
#include "wire/refusal.hpp"
#include "wire/settings.hpp"

namespace tranche::engine {

using wire::Reason;
using wire::Refusal;
using wire::Settings;
using wire::Sku;

struct SetSku {
  Sku sku{};
};
struct SkuSet {
  Sku before{};
  Sku after{};
};
BOOST_DESCRIBE_STRUCT(SkuSet, (), (before, after))

struct ChangeSettings {
  Settings settings{};
};
struct SettingsChanged {
  Settings before{};
  Settings after{};
};
BOOST_DESCRIBE_STRUCT(SettingsChanged, (), (before, after))

struct Found {  // The very first command of a journal: makes the platform and its operator.
  std::string operator_name{};
  TokenHash token_hash{};
};
struct Founded {
  PartyId operator_user{};
};
BOOST_DESCRIBE_STRUCT(Founded, (), (operator_user))

struct NoteDenial {  // The edge refused something that never became a command: a read, a bad token.
  std::string action{};
  Refusal refusal{};
};
struct Denied {
  std::string action{};
  PartyId about{};
  Refusal refusal{};
};
BOOST_DESCRIBE_STRUCT(Denied, (), (action, about, refusal))

struct Tick {};  // Time passes: what is due is done.
struct Ticked {
  std::uint64_t requests_forgotten = 0;
  std::uint64_t jobs_forgotten = 0;
};
BOOST_DESCRIBE_STRUCT(Ticked, (), (requests_forgotten, jobs_forgotten))

}  // namespace tranche::engine
