// SPDX-License-Identifier: Apache-2.0
// The codecs of the API bodies about nodes and devices.
#include "wire/api_node.hpp"

#include "wire/codec_impl.hpp"
#include "wire/session_frame.hpp"

TRANCHE_WIRE_JSON(tranche::wire::NodeAdd);
TRANCHE_WIRE_JSON(tranche::wire::NodeInvite);
TRANCHE_WIRE_JSON(tranche::wire::NodeJoin);
TRANCHE_WIRE_JSON(tranche::wire::NodeJoined);
TRANCHE_WIRE_JSON(tranche::wire::NodeChange);
TRANCHE_WIRE_JSON(tranche::wire::NodeView);
TRANCHE_WIRE_JSON(tranche::wire::NodeList);
TRANCHE_WIRE_JSON(tranche::wire::DeviceList);
TRANCHE_WIRE_JSON(tranche::wire::ExecRequest);
TRANCHE_WIRE_JSON(tranche::wire::ExecEnd);
