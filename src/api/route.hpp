// SPDX-License-Identifier: Apache-2.0
#pragma once
// A route: method, path, what it takes and gives, and the function behind it. The API's document, the router
// and the test of who may call what are all made from the same table.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/envelope.hpp"
#include "net/http.hpp"
#include "net/reply.hpp"
#include "wire/codec.hpp"

namespace tranche::api {

class Api;

// One request on its way to an answer.
struct Call {
  net::Request request;
  net::Reply reply;
  Envelope envelope;                      // Who asks, from where; the loop adds the time.
  std::vector<std::string> parameters{};  // Values of the {…} in the path, in order, decoded.
  net::QueryParameters query{};

  [[nodiscard]] std::string_view query_value(std::string_view name) const;  // Empty when absent.
};

enum class Auth { kToken, kNone };

struct Body {  // Nothing: no body.
  std::string (*name)() = nullptr;
  void (*collect)(wire::Schemas&, wire::SchemaStyle) = nullptr;
};
template <class T>
Body body() {
  return {&wire::schema_name<T>, &wire::collect_schemas<T>};
}

struct Route {
  std::string_view method;
  std::string_view path;  // "/v1/jobs/{job}/stop"
  std::string_view id;    // "stop_job": unique, for generated clients.
  std::string_view tag;
  std::string_view summary;
  Auth auth = Auth::kToken;
  Body takes{};
  Body gives{};
  int status = 200;                       // On success.
  std::vector<std::string_view> query{};  // Names of query parameters it knows; any other is an error.
  std::function<void(Api&, Call)> handle{};
};

std::vector<Route> party_routes();
std::vector<Route> access_routes();  // Roles, tokens, passwords.
std::vector<Route> quota_routes();   // Quotas, rules, SKUs, settings.
std::vector<Route> job_routes();
std::vector<Route> node_routes();
std::vector<Route> booking_routes();
std::vector<Route> log_routes();
std::vector<Route> service_routes();
std::vector<Route> recurring_routes();
std::vector<Route> level_routes();
std::vector<Route> forecast_routes();
std::vector<Route> exec_routes();
std::vector<Route> audit_routes();
std::vector<Route> system_routes();  // Health, metrics, documents.
std::vector<Route> market_routes();
std::vector<Route> market_data_routes();
std::vector<Route> market_quote_routes();
std::vector<Route> recurring_listing_routes();
std::vector<Route> money_routes();  // Accounts, costs, margins.
std::vector<Route> price_routes();
std::vector<Route> ledger_routes();
std::vector<Route> tax_routes();
std::vector<Route> invoice_routes();
std::vector<Route> health_routes();
std::vector<Route> receipt_routes();  // Proofs, and where a device's time went.
std::vector<Route> volume_routes();
std::vector<Route> workdir_routes();
std::vector<Route> telemetry_routes();  // What happens now, in the last hours, and how a job behaved.

}  // namespace tranche::api
