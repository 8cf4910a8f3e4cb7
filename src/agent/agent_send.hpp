// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two ways an agent speaks: now or never, and surely.
#include "agent/agent.hpp"

namespace tranche::agent {

template <class Message>
void Agent::send_now(const Message& message) {
  link_->send(wire::frame_bytes({.acknowledged = 0}, message));
}

template <class Message>
std::uint64_t Agent::send_surely(const Message& message) {
  const std::uint64_t sequence = spool_.add(message);
  if (welcomed_) send_entry(spool_.waiting().back());
  return sequence;
}

}  // namespace tranche::agent
