// SPDX-License-Identifier: Apache-2.0
// Services behind the gateway beside nginx: a real server, a real agent, real sandboxes.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/http_load.hpp"
#include "bench/site.hpp"
#include "bench/units_bench.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using wire::ServiceView;

// What replicas run, and what stands beside our gateway: nginx from Debian. One line, so that it goes into
// JSON.
std::string replica_job(const std::string& answer) {
  return R"J({"port": 8000, "resources": {"cpus": "0.25+"}, "run": "mkdir -p t; printf 'daemon off; )J"
         R"J(worker_processes 1; error_log stderr crit; pid n.pid; )J"
         R"J(events { worker_connections 8192; } http { access_log off; client_body_temp_path t; proxy_temp_path t; )J"
         R"J(fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; keepalive_requests 1000000000; )J"
         R"J(server { listen 127.0.0.1:8000 backlog=4096; location / { return 200 %s; } } }' ')J" +
         answer + R"J(' > n.conf; exec nginx -p . -c n.conf"})J";
}

std::string service_body(const std::string& name, int least, int most, const std::string& job) {
  return R"({"name":")" + name +
         R"(","ready":"/","concurrency":2000,"queue":20000,"idle":"1s","timeout":"30s",)" +
         R"("replicas":{"min":)" + std::to_string(least) + R"(,"max":)" + std::to_string(most) +
         R"(},"job":)" + job + "}";
}

ServiceView until_ready(Caller& user, const std::string& name, std::size_t replicas) {
  for (int i = 0; i < 1200; ++i) {
    auto view = user.get<ServiceView>("/v1/services/" + name);
    if (view.ready >= replicas) return view;
    std::this_thread::sleep_for(25ms);
  }
  throw std::runtime_error("the service never became ready");
}

struct Target {
  std::uint16_t port = 0;
  std::string path{};
};
Target target_of(const ServiceView& view) {  // http://127.0.0.1:7880/acme/echo
  const auto colon = view.url.rfind(':');
  const auto slash = view.url.find('/', colon);
  return {static_cast<std::uint16_t>(std::stoul(view.url.substr(colon + 1, slash - colon - 1))),
          view.url.substr(slash) + "/"};
}

HttpLoadResult load(const Target& target,
                    const std::string& token,
                    int connections,
                    std::chrono::milliseconds length) {
  const std::string request = http_request("GET", target.path, "Authorization: Bearer " + token + "\r\n");
  return run_http_load({.port = target.port,
                        .connections = connections,
                        .request = [&](std::string& out, int, std::uint64_t) { out += request; },
                        .duration = length});
}

std::uint64_t failed(const HttpLoadResult& result) {
  std::uint64_t bad = result.broken;
  for (const auto& [status, count] : result.statuses)
    if (status != 200) bad += count;
  return bad;
}

// nginx as the balancer over the very addresses that our gateway balances over.
class Nginx {
 public:
  Nginx(const std::filesystem::path& folder, const ServiceView& service) {
    port_ = static_cast<std::uint16_t>(20'000 + ::getpid() % 10'000);
    std::filesystem::create_directories(folder / "t");
    std::ofstream conf(folder / "n.conf");
    conf << "daemon off; worker_processes 2; error_log stderr crit; pid n.pid; events { worker_connections "
            "8192; }\n"
            "http { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; "
            "uwsgi_temp_path t;\n"
            "scgi_temp_path t; keepalive_requests 1000000000; upstream u { random two least_conn; keepalive "
            "512;\n"
            "keepalive_requests 1000000000;\n";
    for (const wire::ReplicaView& copy : service.copies) conf << "server " << copy.address << ";\n";
    conf << "}\nserver { listen 127.0.0.1:" << port_
         << " backlog=4096; location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header "
            "Connection \"\"; } } }\n";
    conf.close();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execlp("nginx", "nginx", "-p", folder.c_str(), "-c", "n.conf", nullptr);
      ::_exit(127);
    }
    std::this_thread::sleep_for(500ms);
  }
  ~Nginx() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
};

bool has_nginx() {
  return ::access("/usr/sbin/nginx", X_OK) == 0;
}

Target door_of(const ServiceView& view) {
  const std::string& address = view.copies.front().address;
  return {static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))), "/"};
}

void gateway_rows(Caller& user, std::vector<Row>& rows) {
  user.ask("PUT", "/v1/services", service_body("echo", 4, 4, replica_job("ok")));
  const ServiceView view = until_ready(user, "echo", 4);
  const Target target = target_of(view);
  const auto folder = fresh_folder();
  {
    const Nginx nginx(folder, view);
    double added = 0, nginx_adds = 0;
    for (int turn = 0; turn < 3; ++turn) {  // In turns, so that all see the same machine.
      const double alone = load(door_of(view), user.token(), 1, 1s).latency.percentile_ms(50);
      added += (load(target, user.token(), 1, 1s).latency.percentile_ms(50) - alone) * 1000 / 3;
      nginx_adds +=
          (load({nginx.port(), "/"}, user.token(), 1, 1s).latency.percentile_ms(50) - alone) * 1000 / 3;
    }
    char beside_it[64];
    std::snprintf(beside_it, sizeof beside_it, "nginx %.0f us", nginx_adds);
    rows.push_back({.what = "gateway: added at p50, one client",
                    .value = added,
                    .unit = "us",
                    .goal = 100,
                    .better = Better::kLower,
                    .peer = beside_it,
                    .peer_source = PeerSource::kMeasured});
    double ours = 0, theirs = 0;
    for (int turn = 0; turn < 3; ++turn) {  // In turns, so that both see the same machine.
      ours += load(target, user.token(), 1000, 3s).per_second() / 3;
      theirs += load({nginx.port(), "/"}, user.token(), 1000, 3s).per_second() / 3;
    }
    char peer[64];
    std::snprintf(peer, sizeof peer, "nginx %.0f/s", theirs);
    rows.push_back({.what = "gateway: requests, 1,000 clients, 4 replicas",
                    .value = ours,
                    .unit = "requests/s",
                    .peer = peer,
                    .peer_source = PeerSource::kMeasured});
    rows.push_back({.what = "gateway / nginx over the same replicas",
                    .value = theirs > 0 ? ours / theirs : 0,
                    .unit = "ratio",
                    .goal = 0.9,
                    .peer = peer,
                    .peer_source = PeerSource::kMeasured});
  }
  std::filesystem::remove_all(folder);
}

void change_rows(Caller& user, std::vector<Row>& rows) {
  const ServiceView view = until_ready(user, "echo", 4);
  const Target target = target_of(view);
  std::thread killer([&] {
    std::this_thread::sleep_for(1s);
    Caller other = user.again();
    other.ask("POST", "/v1/jobs/" + text(view.copies.front().job) + "/stop");
  });
  const auto killed = load(target, user.token(), 64, 6s);
  killer.join();
  rows.push_back({.what = "replica ended under load: requests that failed, of a kind that may be repeated",
                  .value = static_cast<double>(failed(killed)),
                  .unit = "of " + std::to_string(killed.answers),
                  .better = Better::kLower});
  std::thread updater([&] {
    std::this_thread::sleep_for(1s);
    Caller other = user.again();
    other.ask("PUT", "/v1/services", service_body("echo", 4, 4, replica_job("new")));
  });
  const auto rolled = load(target, user.token(), 64, 8s);
  updater.join();
  rows.push_back({.what = "rolling update under load: requests that failed",
                  .value = static_cast<double>(failed(rolled)),
                  .unit = "of " + std::to_string(rolled.answers),
                  .better = Better::kLower});
  user.ask("DELETE", "/v1/services/echo");
}

void cold_rows(Caller& user, std::vector<Row>& rows) {
  user.ask("PUT", "/v1/services", service_body("cold", 0, 1, replica_job("ok")));
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    const Target target = target_of(user.get<ServiceView>("/v1/services/cold"));
    while (user.get<ServiceView>("/v1/services/cold").replicas != 0) std::this_thread::sleep_for(20ms);
    net::Client client({.port = target.port, .tls = std::nullopt});
    const auto began = Clock::now();
    const auto answer = client.get(target.path, {{"Authorization", "Bearer " + user.token()}});
    if (!answer || answer->status != 200) throw std::runtime_error("a cold start failed");
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
  }
  std::sort(times.begin(), times.end());
  rows.push_back({.what = "cold start from zero: first answer, median of 7",
                  .value = times[times.size() / 2],
                  .unit = "ms",
                  .goal = 300,
                  .better = Better::kLower});
  user.ask("DELETE", "/v1/services/cold");
}

// One tenant's p99 while another floods its own service through the same gateway.
void fairness_rows(Site& site, Caller& user, std::vector<Row>& rows) {
  Caller flood = site.user("flood", "mallory");
  user.ask("PUT", "/v1/services", service_body("calm", 1, 1, replica_job("ok")));
  flood.ask("PUT", "/v1/services", service_body("wild", 1, 1, replica_job("ok")));
  const Target calm = target_of(until_ready(user, "calm", 1));
  const Target wild = target_of(until_ready(flood, "wild", 1));
  std::vector<double> alone, beside;
  double flooded = 0;
  for (int turn = 0; turn < 3; ++turn) {  // In turns, so that both see the same machine.
    alone.push_back(load(calm, user.token(), 100, 3s).latency.percentile_ms(99));
    std::thread other([&] { flooded += load(wild, flood.token(), 1900, 5s).per_second() / 3; });
    std::this_thread::sleep_for(1s);
    beside.push_back(load(calm, user.token(), 100, 3s).latency.percentile_ms(99));
    other.join();
  }
  std::sort(alone.begin(), alone.end());
  std::sort(beside.begin(), beside.end());
  char beside_it[96];
  std::snprintf(beside_it, sizeof beside_it, "%.2f ms alone; the flood got %.0f/s", alone[1], flooded);
  rows.push_back({.what = "p99 of a tenant's 100 clients while another's 1,900 flood, against alone",
                  .value = alone[1] > 0 ? beside[1] / alone[1] : 0,
                  .unit = "times",
                  .goal = 1.3,
                  .better = Better::kLower,
                  .peer = beside_it,
                  .peer_source = PeerSource::kMeasured});
  user.ask("DELETE", "/v1/services/calm");
  flood.ask("DELETE", "/v1/services/wild");
}

std::vector<Row> run() {
  std::vector<Row> rows;
  Site site;
  Caller user = site.user("acme", "ana");
  if (!has_nginx()) {
    std::fputs("nginx is not installed: rows about services are left out (tools/bootstrap --bench)\n",
               stderr);
  } else {
    const auto part = [&](const char* name, const std::function<void()>& run) {
      if (!wanted(name)) return;
      progress(name);
      run();
    };
    part("gateway", [&] {
      gateway_rows(user, rows);
      change_rows(user, rows);
    });
    part("cold", [&] { cold_rows(user, rows); });
    part("fairness", [&] { fairness_rows(site, user, rows); });
  }
  for (Row& row : unit_rows(site)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

Suite workloads_suite() {
  return {"workloads", "Services behind the gateway beside nginx; frames, people, preemption, a farm.", run};
}

}  // namespace tranche::bench
