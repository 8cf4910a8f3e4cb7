// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which services there are, and for each what a request must know of it before it is passed on. A new one is
// made for every change; threads keep the one they have until they see that there is another.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "gateway/allowance.hpp"
#include "gateway/live_service.hpp"
#include "net/forward.hpp"
#include "net/http.hpp"

namespace tranche::gateway {

enum class Callers { kTenants, kOwner, kEverybody };

struct Listed {
  std::shared_ptr<LiveService> service{};
  std::uint64_t revision = 0;  // Of the service, that the rest is from.
  Callers callers = Callers::kTenants;
  PartyId owner{};
  std::vector<PartyId> tenants{};  // Who may call it.
  bool keeps_path = false;
  net::ForwardOptions forward{};
  std::string prefix{};  // "/acme/echo/"
  std::string origin{};  // "http://echo--acme.example.org:7880"; empty: it has none of its own.
  Allowances allowances{};
};

using Directory = std::map<std::string, Listed, std::less<>>;  // By "acme/echo".

// Where a request goes.
struct Place {
  std::string key{};        // Of the directory.
  std::string_view rest{};  // Of the path, behind the service's own.
  bool is_own_origin = false;
};
// By the host "echo--acme.example.org" below the domain, else by the path "/acme/echo/...".
[[nodiscard]] Place place_of(const net::Request& request, std::string_view domain);
// The host's first label for a service; empty when no label is that long.
[[nodiscard]] std::string host_label(std::string_view tenant, std::string_view service);

}  // namespace tranche::gateway
