// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a thread of the gateway has at hand: whose turn it is there, and the services as it knows them.
#include <cstdint>
#include <memory>

#include "gateway/directory.hpp"
#include "gateway/turnstile.hpp"
#include "net/cpu_pressure.hpp"
#include "net/forward.hpp"

namespace tranche::gateway {

// Made by its thread, and used by it alone.
struct Desk {
  explicit Desk(net::Loop& thread)
      : turnstile([&thread](Turnstile& asks) { net::Forwarder::later(thread, [&asks] { asks.turn(); }); },
                  [this] { return pressure.waited(); }) {}
  net::CpuPressure pressure;
  Turnstile turnstile;
  std::shared_ptr<const Directory> directory;
  std::uint64_t edition = UINT64_MAX;  // Of the directory.
};

}  // namespace tranche::gateway
