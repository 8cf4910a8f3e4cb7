// SPDX-License-Identifier: Apache-2.0
#pragma once
// A closed-loop HTTP load generator: N kept connections, one thread, epoll and raw sockets, so that it costs
// as little as possible on the machine it shares with the server it measures.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tranche::bench {

// Counts of latencies in buckets of about 3 %, from 1 us to an hour.
class LatencyHistogram {
 public:
  LatencyHistogram();
  void add(std::chrono::nanoseconds latency);
  [[nodiscard]] double percentile_ms(double percent) const;  // The upper edge of the bucket.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
};

struct HttpLoad {
  std::uint16_t port = 0;  // On 127.0.0.1: this tool is not for other machines.
  int connections = 64;
  // Appends the whole request of `connection`, its `number`th. Called on the thread of run().
  std::function<void(std::string& out, int connection, std::uint64_t number)> request;
  std::uint64_t count_max = 0;  // 0: bounded by time alone.
  std::chrono::milliseconds duration{3'000};
  std::chrono::milliseconds warm_up{300};  // Not counted.
};

struct HttpLoadResult {
  std::uint64_t answers = 0;
  std::uint64_t broken = 0;  // Connections that ended or answers that were no HTTP.
  double seconds = 0;
  double generator_cpu_seconds = 0;  // What the generator's own thread used.
  std::map<int, std::uint64_t> statuses;
  LatencyHistogram latency;
  [[nodiscard]] double per_second() const { return seconds > 0 ? static_cast<double>(answers) / seconds : 0; }
};

// Throws std::runtime_error when it cannot connect.
HttpLoadResult run_http_load(const HttpLoad& load);

// "POST /path HTTP/1.1 …" with Host, Content-Length, the header lines given ("Name: value\r\n"), and the
// body.
std::string http_request(std::string_view method,
                         std::string_view path,
                         std::string_view header_lines = {},
                         std::string_view body = {});

}  // namespace tranche::bench
