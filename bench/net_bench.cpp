// SPDX-License-Identifier: Apache-2.0
// What the network stack alone costs: requests a second and p99 on one server thread, plain and under TLS,
// answered at once or from another thread.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <sys/resource.h>
#include <thread>

#include "bench/bench.hpp"
#include "bench/http_load.hpp"
#include "net/certificate_authority.hpp"
#include "net/client.hpp"
#include "net/server.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;

double process_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

net::Response small_answer() {
  net::Response response;
  response.body = R"({"id":"job_000001","state":"waiting"})";
  return response;
}

// Answers in batches from a thread of its own, as the engine's loop does.
class Answerer {
 public:
  Answerer() : thread_([this] { run(); }) {}
  ~Answerer() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  void take(net::Reply reply) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = waiting_.empty();
      waiting_.push_back(std::move(reply));
    }
    if (first) changed_.notify_one();
  }

 private:
  void run() {
    std::vector<net::Reply> batch;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
      if (over_) return;
      batch.swap(waiting_);
      lock.unlock();
      {
        const net::AnswerBatch together;
        for (net::Reply& reply : batch) reply.send(small_answer());
      }
      batch.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<net::Reply> waiting_;
  bool over_ = false;
  std::thread thread_;
};

struct Measured {
  HttpLoadResult load;
  double server_microseconds = 0;  // CPU of the server's threads for each request.
};

Measured measure(const net::Server& server, const std::string& request) {
  HttpLoad load;
  load.port = server.port();
  load.request = [&](std::string& out, int, std::uint64_t) { out += request; };
  Measured measured;
  const std::uint64_t requests_before = server.counts().requests;
  const double cpu_before = process_cpu_seconds();
  measured.load = run_http_load(load);
  const double cpu = process_cpu_seconds() - cpu_before - measured.load.generator_cpu_seconds;
  const auto requests = static_cast<double>(server.counts().requests - requests_before);
  measured.server_microseconds = requests > 0 ? cpu * 1e6 / requests : 0;
  return measured;
}

void add_rows(std::vector<Row>& rows, const std::string& what, const Measured& measured, double goal) {
  Row rate;
  rate.what = what;
  rate.value = measured.load.per_second();
  rate.unit = "1/s";
  rate.goal = goal;
  rows.push_back(rate);
  Row p99;
  p99.what = what + ", p99";
  p99.value = measured.load.latency.percentile_ms(99);
  p99.unit = "ms";
  p99.better = Better::kLower;
  rows.push_back(p99);
  Row cpu;
  cpu.what = what + ", server CPU";
  cpu.value = measured.server_microseconds;
  cpu.unit = "us/request";
  cpu.better = Better::kLower;
  rows.push_back(cpu);
  if (measured.load.broken > 0 || measured.load.statuses.size() != 1 || !measured.load.statuses.contains(200))
    std::fprintf(stderr, "net: %s: not every answer was a 200\n", what.c_str());
}

// One kept TLS connection, one request after the other: what a round trip costs with the handshake paid.
Row tls_round_trip() {
  const auto authority = net::CertificateAuthority::make("bench", net::Validity::lasting(1h));
  const net::Identity identity = authority.issue_server({"127.0.0.1"}, net::Validity::lasting(1h));
  net::ServerOptions options;
  options.tls = net::TlsServerOptions{identity.certificate_pem, identity.key_pem, {}, {}};
  net::Server server(options, [](net::Request&&, net::Reply reply) { reply.send(small_answer()); });
  server.start();
  net::ClientOptions where;
  where.port = server.port();
  where.tls = net::TlsClientOptions{authority.certificate_pem(), {}, {}, {}};
  net::Client client(where);
  const auto until = std::chrono::steady_clock::now() + 2s;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t answers = 0;
  while (std::chrono::steady_clock::now() < until && client.get("/").has_value()) ++answers;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Row row;
  row.what = "TLS GET, one connection, one at a time";
  row.value = static_cast<double>(answers) / seconds;
  row.unit = "1/s";
  return row;
}

std::vector<Row> run() {
  std::vector<Row> rows;
  const std::string get =
      http_request("GET", "/v1/jobs/job_000001", "Authorization: Bearer 0123456789abcdef\r\n");
  const std::string post =
      http_request("POST",
                   "/v1/jobs",
                   "Authorization: Bearer 0123456789abcdef\r\nContent-Type: application/json\r\n",
                   std::string(300, 'x'));
  net::Server direct({}, [](net::Request&&, net::Reply reply) { reply.send(small_answer()); });
  direct.start();
  add_rows(rows, "GET, 64 connections, answered at once", measure(direct, get), 0);
  add_rows(rows, "POST 300 B, 64 connections, answered at once", measure(direct, post), 0);
  Answerer answerer;
  net::Server relayed({}, [&](net::Request&&, net::Reply reply) { answerer.take(std::move(reply)); });
  relayed.start();
  add_rows(rows, "POST 300 B, 64 connections, answered from another thread", measure(relayed, post), 40'000);
  rows.push_back(tls_round_trip());
  return rows;
}

}  // namespace

Suite net_suite() {
  return {"net", "HTTP on one server thread, load on the same machine", run};
}

}  // namespace tranche::bench
