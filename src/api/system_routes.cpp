// SPDX-License-Identifier: Apache-2.0
// Health, metrics and the API's own document.
#include "api/api.hpp"
#include "api/metrics.hpp"
#include "api/problem.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

net::Response plain(int status, std::string text) {
  net::Response response = json_response(status, std::move(text));
  response.content_type = "text/plain; charset=utf-8";
  return response;
}

void healthz(Api&, Call call) {
  call.reply.send(plain(200, "ok\n"));
}

// Ready means: the loop answers, and there is room to write.
void readyz(Api& api, Call call) {
  api.loop().read([&api, call = std::move(call)](const State&) mutable {
    const bool low = api.loop().counts().disk_low;
    call.reply.send(plain(low ? 503 : 200, low ? "the disk is full\n" : "ready\n"));
  });
}

// A round trip through authentication and the engine's thread that changes nothing.
void ping(Api& api, Call call) {
  api.view(std::move(call),
           [](const State&, const Actor&) -> Result<net::Response, wire::Refusal> { return no_content(); });
}

void openapi(Api& api, Call call) {
  call.reply.send(json_response(200, api.openapi()));
}

std::string seconds(std::uint64_t nanoseconds) {
  std::string text = std::to_string(nanoseconds / 1'000'000'000) + '.';
  const std::string fraction = std::to_string(nanoseconds % 1'000'000'000);
  return text + std::string(9 - fraction.size(), '0') + fraction;
}

bool wants_old_label(const Call& call) {
  return call.query_value("hostname_label") == "Hostname";
}

net::Response for_prometheus(std::string text) {
  net::Response response = plain(200, std::move(text));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

void append_capacity(Api& api, std::string& out, const State& state, Fleet fleet, bool old_label) {
  if (const server::AgentHub* hub = api.options().hub) {
    append_device_metrics(out, state, *hub, fleet, old_label ? "Hostname" : "hostname");
    append_slice_metrics(out, state, *hub, fleet);
  }
  append_tenant_metrics(out, state, fleet);
}

void metrics(Api& api, Call call) {
  const bool old_label = wants_old_label(call);
  api.view(
      std::move(call),
      [&api, old_label](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
        if (auto refusal = engine::check_access(state, actor, engine::Action::kViewParty, kPlatform))
          return refuse(*refusal);
        const server::LoopCounts counts = api.loop().counts();
        std::string out;
        append_metric(out,
                      "tranche_http_requests_total",
                      "counter",
                      "Requests received.",
                      std::to_string(api.requests()));
        append_metric(
            out, "tranche_commands_total", "counter", "Commands decided.", std::to_string(counts.commands));
        append_metric(out,
                      "tranche_commands_refused_total",
                      "counter",
                      "Commands refused.",
                      std::to_string(counts.refused));
        append_metric(out,
                      "tranche_commands_replayed_total",
                      "counter",
                      "Answers given again for a repeated idempotency key.",
                      std::to_string(counts.replayed));
        append_metric(out,
                      "tranche_journal_commits_total",
                      "counter",
                      "Durable batches.",
                      std::to_string(counts.batches));
        append_metric(out,
                      "tranche_journal_records_total",
                      "counter",
                      "Records written since the start.",
                      std::to_string(counts.records));
        append_metric(out,
                      "tranche_journal_commit_seconds_total",
                      "counter",
                      "Time spent making batches durable.",
                      seconds(counts.commit_nanoseconds));
        append_metric(out,
                      "tranche_journal_sequence",
                      "gauge",
                      "Number of the last record.",
                      std::to_string(state.sequence));
        append_metric(out,
                      "tranche_queue_length",
                      "gauge",
                      "Commands and reads that wait.",
                      std::to_string(counts.waiting));
        append_metric(out,
                      "tranche_jobs",
                      "gauge",
                      "Jobs known, ended ones included.",
                      std::to_string(state.jobs.size()));
        append_metric(out,
                      "tranche_parties",
                      "gauge",
                      "Nodes of the tree of who.",
                      std::to_string(state.parties.size()));
        append_metric(out,
                      "tranche_event_subscribers",
                      "gauge",
                      "Open event streams.",
                      std::to_string(api.events().size()));
        append_metric(out,
                      "tranche_disk_low",
                      "gauge",
                      "1 while ordinary writes are refused.",
                      counts.disk_low ? "1" : "0");
        append_capacity(api, out, state, Fleet::kReal, old_label);
        return for_prometheus(std::move(out));
      });
}

void metrics_of_simulated(Api& api, Call call) {
  const bool old_label = wants_old_label(call);
  api.view(std::move(call),
           [&api, old_label](const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             if (auto refusal = engine::check_access(state, actor, engine::Action::kViewParty, kPlatform))
               return refuse(*refusal);
             std::string out;
             append_capacity(api, out, state, Fleet::kSimulated, old_label);
             return for_prometheus(std::move(out));
           });
}

}  // namespace

std::vector<Route> system_routes() {
  return {
      {.method = "POST",
       .path = "/v1/ping",
       .id = "ping",
       .tag = "system",
       .summary = "A round trip that changes nothing",
       .status = 204,
       .handle = ping},
      {.method = "GET",
       .path = "/healthz",
       .id = "healthz",
       .tag = "system",
       .summary = "The process answers",
       .auth = Auth::kNone,
       .handle = healthz},
      {.method = "GET",
       .path = "/readyz",
       .id = "readyz",
       .tag = "system",
       .summary = "The server can take commands",
       .auth = Auth::kNone,
       .handle = readyz},
      {.method = "GET",
       .path = "/openapi.json",
       .id = "openapi",
       .tag = "system",
       .summary = "This document",
       .auth = Auth::kNone,
       .handle = openapi},
      {.method = "GET",
       .path = "/metrics",
       .id = "metrics",
       .tag = "system",
       .summary =
           "Prometheus metrics of all but simulated capacity; devices under the names of dcgm-exporter",
       .query = {"hostname_label"},
       .handle = metrics},
      {.method = "GET",
       .path = "/metrics/sim",
       .id = "metrics_of_simulated",
       .tag = "system",
       .summary = "The same of simulated capacity, every name with sim_ in front",
       .query = {"hostname_label"},
       .handle = metrics_of_simulated},
  };
}

}  // namespace tranche::api
