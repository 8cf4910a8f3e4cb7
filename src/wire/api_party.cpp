// SPDX-License-Identifier: Apache-2.0
// The codecs of the API bodies about who, in one place that pays for the templates.
#include "wire/api_party.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::PartyView);
TRANCHE_WIRE_JSON(tranche::wire::PartyList);
TRANCHE_WIRE_JSON(tranche::wire::NewParty);
TRANCHE_WIRE_JSON(tranche::wire::PartyPatch);
TRANCHE_WIRE_JSON(tranche::wire::RoleBinding);
TRANCHE_WIRE_JSON(tranche::wire::RoleList);
TRANCHE_WIRE_JSON(tranche::wire::Whoami);
TRANCHE_WIRE_JSON(tranche::wire::Quota);
TRANCHE_WIRE_JSON(tranche::wire::QuotaView);
TRANCHE_WIRE_JSON(tranche::wire::RulesBody);
TRANCHE_WIRE_JSON(tranche::wire::RulesView);
TRANCHE_WIRE_JSON(tranche::wire::NewToken);
TRANCHE_WIRE_JSON(tranche::wire::TokenView);
TRANCHE_WIRE_JSON(tranche::wire::TokenList);
TRANCHE_WIRE_JSON(tranche::wire::IssuedToken);
TRANCHE_WIRE_JSON(tranche::wire::NewPassword);
TRANCHE_WIRE_JSON(tranche::wire::Login);
