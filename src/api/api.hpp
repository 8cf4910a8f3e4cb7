// SPDX-License-Identifier: Apache-2.0
#pragma once
// The edge: finds the route, learns who asks, and carries commands and reads to the loop. No rule lives here.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/auth_limiter.hpp"
#include "api/event_feed.hpp"
#include "api/route.hpp"
#include "api/sealer.hpp"
#include "api/worker.hpp"
#include "base/result.hpp"
#include "engine/access.hpp"
#include "engine/event.hpp"
#include "server/agent_hub.hpp"
#include "server/forecaster.hpp"
#include "server/log_store.hpp"
#include "server/loop.hpp"
#include "wire/service.hpp"

namespace tranche::api {

struct AgentAddress {  // Where machines join.
  std::string url{};
  std::string ca_pin{};
};

struct ApiOptions {
  std::string version{};
  std::filesystem::path folder{};   // Data; for verifying the journal.
  std::filesystem::path console{};  // Static files; empty: none.
  std::uint64_t seed = 0;           // Of request ids.
  Sealer::Key seal_key{};           // For secrets of jobs.
  server::AgentHub* hub = nullptr;
  server::LogStore* logs = nullptr;
  server::WorkdirStore* workdirs = nullptr;
  AgentAddress agents{};
  // What the gateway knows of a service beyond the journal: readiness, load, address.
  std::function<void(const engine::ServiceKey&, wire::ServiceView&)> live_service{};
};

// SKUs and settings as of the last record, for the network's threads.
struct Catalogue {
  std::map<std::string, wire::Sku> skus{};
  wire::Settings settings{};
  std::int64_t smallest_vram = std::numeric_limits<std::int64_t>::max();  // Of devices that can be shared.
  std::int64_t largest_vram = 0;                                          // Likewise; zero: there is none.
  std::int64_t largest_simulated_vram = 0;
};

class Api {
 public:
  using Render = std::function<net::Response(const server::Outcome&)>;
  using View =
      std::function<Result<net::Response, wire::Refusal>(const engine::State&, const engine::Actor&)>;
  using WithParty = UniqueFunction<void(Call, PartyId)>;

  // Before the loop is started: follows its records.
  Api(server::Loop& loop, ApiOptions options);

  void handle(net::Request&& request, net::Reply reply);
  void pulse();  // Every few seconds: keeps event streams alive.

  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }
  [[nodiscard]] const std::string& openapi() const { return openapi_; }
  [[nodiscard]] server::Loop& loop() { return loop_; }
  [[nodiscard]] EventFeed& events() { return events_; }
  [[nodiscard]] server::Forecaster& forecaster() { return forecaster_; }
  [[nodiscard]] AuthLimiter& limiter() { return limiter_; }
  [[nodiscard]] const Sealer& sealer() const { return sealer_; }
  [[nodiscard]] const ApiOptions& options() const { return options_; }
  [[nodiscard]] std::shared_ptr<const Catalogue> catalogue() const;
  [[nodiscard]] std::uint64_t requests() const { return requests_; }

  // Carries out a command and renders its success; refusals and faults become problems.
  void run(Call call, engine::Command command, Render render);
  // What would become of a command, without doing it; the answer to a dry run.
  using Rehearsed = std::function<net::Response(const engine::State&, const engine::Decision&, Instant at)>;
  void rehearse(Call call, engine::Command command, Rehearsed render);
  // Answers from the state. A refusal to look is kept for audit, like a refusal to change.
  void view(Call call, View view);
  // Goes on with the party that a text names, by id or path; with none when there is no such party.
  void with_party(Call call, std::string name, WithParty then);
  // Goes on beside the network and the engine, for what takes long; 503 when too much of that waits.
  void later(Call call, UniqueFunction<void(Call)> then);
  // The same for forecasts, so that nobody waits behind them to log in; false when too many wait already.
  [[nodiscard]] bool foretell(UniqueFunction<void()> task) { return foreteller_.post(std::move(task)); }
  // Calls again with true once the job has ended, and with false now and then: false ends it.
  void follow_until_over(JobId job, std::function<bool(bool over)> follower);
  void note_denial(Envelope envelope, std::string action, wire::Refusal refusal);

 private:
  [[nodiscard]] const Route* find(Call& call, bool& path_known) const;
  [[nodiscard]] bool authenticate(Call& call);
  [[nodiscard]] std::string next_request_id();
  void follow(const server::Durable& durable);

  void keep_catalogue(Catalogue catalogue);

  server::Loop& loop_;
  ApiOptions options_;
  std::vector<Route> routes_;
  std::map<std::size_t, std::vector<const Route*>> by_depth_;  // Number of path segments.
  std::string openapi_;
  Sealer sealer_;
  EventFeed events_;
  AuthLimiter limiter_;
  std::atomic<std::uint64_t> requests_ = 0;
  std::mutex job_followers_mutex_;
  std::multimap<JobId, std::function<bool(bool)>> job_followers_;
  mutable std::mutex catalogue_mutex_;
  std::shared_ptr<const Catalogue> catalogue_;
  server::Forecaster forecaster_;
  Worker worker_;  // Last, both: they end before what their tasks use.
  Worker foreteller_;
};

// The described body of a call, or the answer that says what is wrong with it.
template <class T>
[[nodiscard]] Result<T, wire::Problem> parse(const Call& call) {
  return wire::from_json<T>(call.request.body);
}

// If-Match as a version; zero when absent or "*".
[[nodiscard]] std::uint64_t if_version(const Call& call);

// limit= and cursor= of a list.
struct Page {
  std::size_t limit = 100;
  std::uint64_t after = 0;
};
[[nodiscard]] Result<Page, wire::Problem> page_of(const Call& call);

}  // namespace tranche::api
