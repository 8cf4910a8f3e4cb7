// SPDX-License-Identifier: Apache-2.0
#pragma once
// One address in front of every service: finds the service, knows the caller, picks a replica, and tries
// another one where that is safe. Beside it a controller keeps the replicas that the services need.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "gateway/desk.hpp"
#include "gateway/directory.hpp"
#include "gateway/live_service.hpp"
#include "net/forward.hpp"
#include "net/prober.hpp"
#include "net/server.hpp"
#include "policy/service_scaling.hpp"
#include "server/agent_hub.hpp"
#include "server/loop.hpp"

namespace tranche::gateway {

struct GatewayOptions {
  std::uint64_t seed = 0;
  std::string url{};     // As callers reach it.
  std::string domain{};  // Names below it are origins of single services; empty: services have none.
  std::optional<net::TlsClientOptions> sealed{};  // What doors on other machines are shown.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

class Gateway {
 public:
  // Before the loop is started: follows its records.
  Gateway(server::Loop& loop, const server::AgentHub& hub, GatewayOptions options);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  void start(std::string url);  // After the loop.
  // After the server that calls handle() was stopped, and before it is gone; before the loop ends: what was
  // counted becomes durable.
  void stop();
  void handle(net::Request&& request, net::Reply reply);
  void describe(const engine::ServiceKey& key, wire::ServiceView& view) const;

 private:
  struct Flight;  // One request and where it was tried.

  // gateway.cpp: requests.
  [[nodiscard]] Desk& desk_of(const net::Reply& reply);
  struct Caller {
    PartyId tenant{};                       // Zero: nobody knows.
    std::optional<net::Response> answer{};  // Instead of passing it on.
  };
  [[nodiscard]] Caller caller_of(const Listed* listed, const Place& place, net::Request& request) const;
  struct Known {
    PartyId party{};
    PartyId tenant{};
  };
  [[nodiscard]] std::optional<Known> known_by(std::string_view token) const;
  [[nodiscard]] Caller owner_of(const Listed& listed, const Place& place, net::Request& request) const;
  void take_off(std::shared_ptr<Flight> flight);
  void fly(const std::shared_ptr<Flight>& flight, Pick pick);
  void land(const std::shared_ptr<Flight>& flight, net::ForwardEnd end, int status, net::Reply* reply);
  static void refuse(const Flight& flight, int status, std::string_view why, net::Reply& reply);

  // controller.cpp: replicas. A Control belongs to the controller's thread.
  struct Probe {
    bool is_asked = false;  // And has not answered.
    bool is_good = false;
  };
  struct Check {  // Whether one that was ready still is.
    bool is_asked = false;
    std::uint32_t failed = 0;  // In a row.
    int status = 0;            // Of the last answer; zero: there was none.
    Clock::time_point next{};
  };
  struct Control {
    policy::ServiceScaling scaling{};
    bool adding = false;  // Asked for, not yet answered.
    std::uint32_t failures = 0;
    Clock::time_point not_before{};
    std::string status{};
    bool is_late = false;             // The objective is missed, and the status says so.
    std::string waits{};              // Which replica has not been started yet, beside the status.
    std::map<JobId, Probe> probes{};  // Of replicas that are not ready yet.
    std::map<JobId, Check> checks{};  // Of those that are.
    std::set<JobId> silent{};         // Were ready, and do not answer any more.
    std::set<JobId> seen_ready{}, known{};
    Clock::time_point counted{};
  };
  void run();
  void steer(const std::shared_ptr<LiveService>& service, Control& control);
  void notice_ends(Control& control, const LiveService::Picture& picture);
  static bool notice_lateness(Control& control, const LiveService::Picture& picture);
  void steer_version(const std::shared_ptr<LiveService>& service,
                     Control& control,
                     const LiveService::Picture& picture,
                     const std::string& version,
                     std::uint32_t part);
  void retire_drained(LiveService& service, const LiveService::Picture& picture);
  [[nodiscard]] static std::chrono::milliseconds backoff(std::uint32_t failures);
  void take_answers();
  void add(const std::shared_ptr<LiveService>& service, const std::string& version, Control& control);
  void retire(const engine::ServiceKey& key, JobId job);
  void flush_counts(LiveService& service);

  // catalog.cpp: what the journal says of services and callers.
  void follow(const server::Durable& durable);
  void note_callers(const engine::State& state);
  void learn(const engine::State& state);
  [[nodiscard]] Listed listed(const engine::State& state,
                              const engine::Service& service,
                              std::shared_ptr<LiveService> live);
  [[nodiscard]] Allowances allowances_of(const engine::State& state, PartyId owner);
  void learn_again_when_due();

  // readiness.cpp: which replicas can serve.
  void probe(const std::shared_ptr<LiveService>& service,
             Control& control,
             const LiveService::Picture& picture);
  void probe_one(const std::shared_ptr<LiveService>& service,
                 Control& control,
                 const LiveService::Copy& copy,
                 const wire::ServiceSpec& spec);
  void check_one(const std::shared_ptr<LiveService>& service,
                 Control& control,
                 const LiveService::Copy& copy,
                 const wire::ServiceSpec& spec);
  void ask_whether_ready(const std::shared_ptr<LiveService>& service,
                         const LiveService::Copy& copy,
                         const std::string& path);
  void take_probes();

  server::Loop& loop_;
  const server::AgentHub& hub_;
  GatewayOptions options_;
  net::Forwarder forwarder_;
  mutable std::mutex mutex_;
  const std::uint64_t number_;  // Of this gateway in the process.
  std::shared_ptr<const Directory> directory_ = std::make_shared<const Directory>();
  std::atomic<std::uint64_t> edition_{0};  // Of the directory.
  struct LimitKey {
    PartyId party{};
    std::string unit{};
    std::int64_t limit = 0;
    Instant until{};
    auto operator<=>(const LimitKey&) const = default;
  };
  std::map<LimitKey, std::shared_ptr<Allowance>> allowances_;  // The loop's thread only.
  std::atomic<std::int64_t> learn_at_{INT64_MAX};  // When a period ends and quotas begin anew; microseconds.
  std::map<PartyId, PartyId> tenants_;             // Of everybody who is not disabled.
  std::map<const net::Loop*, std::unique_ptr<Desk>> desks_;
  std::set<engine::ServiceKey> ended_;  // What has its name now is another; the loop's thread only.
  std::map<std::shared_ptr<LiveService>, Control> controls_;  // The controller's thread only.
  std::vector<std::pair<std::shared_ptr<LiveService>, std::string>> answers_;  // To additions; text: why not.
  struct ProbeAnswer {
    std::shared_ptr<LiveService> service{};
    JobId job{};
    int status = 0;
  };
  std::vector<ProbeAnswer> probe_answers_;
  std::condition_variable wake_;
  bool stopping_ = false, changed_ = false;
  std::thread thread_;
  std::unique_ptr<net::Prober> prober_;  // Last: it calls back until it is gone.
};

}  // namespace tranche::gateway
