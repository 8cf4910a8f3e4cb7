// SPDX-License-Identifier: Apache-2.0
#include "gateway/live_service.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

#include "gateway/usage_reader.hpp"

namespace tranche::gateway {
namespace {

constexpr PartyId kAcme = PartyId::make(PartyKind::kTenant, 1);
constexpr PartyId kBlue = PartyId::make(PartyKind::kTenant, 2);

struct Bench {
  Clock::time_point now = Clock::now();
  LiveService service{{kAcme, "echo"}, 7, [this] { return now; }};
  std::vector<std::optional<Pick>> granted{};

  explicit Bench(std::uint32_t replicas, wire::ServiceSpec spec = {}) {
    spec.name = "echo";
    if (spec.versions.empty()) spec.versions = {{.name = "v1"}};
    service.configure(std::move(spec), kAcme);
    std::vector<ReplicaFacts> facts;
    for (std::uint32_t i = 1; i <= replicas; ++i)
      facts.push_back({.job = {i}, .version = "v1", .target = {"127.0.0.1", static_cast<std::uint16_t>(i)}});
    service.know(facts);
    for (std::uint32_t i = 1; i <= replicas; ++i) service.set_ready({i}, true);
  }
  LiveService::Entry enter(PartyId caller = kAcme, const Tried& tried = {}) {
    return service.enter(
        caller, tried, [this](std::optional<Pick> pick) { granted.push_back(std::move(pick)); });
  }
};

TEST_CASE("live service: no replica gets more than it is good for, and the rest wait their turn") {
  Bench bench(2, {.concurrency = 2, .queue = 10});
  for (int i = 0; i < 6; ++i) bench.enter();
  CHECK(bench.granted.size() == 4);
  for (const auto& copy : bench.service.picture().copies) CHECK(copy.active == 2);
  CHECK(bench.service.picture().queued == 2);
  bench.service.leave(*bench.granted[0], Outcome::kGood);
  CHECK(bench.granted.size() == 5);
}

TEST_CASE("live service: a full queue refuses, and a flood does not shut out another caller") {
  Bench bench(1, {.concurrency = 1, .queue = 4});
  CHECK(bench.enter() == LiveService::Entry::kGranted);
  for (int i = 0; i < 4; ++i) CHECK(bench.enter() == LiveService::Entry::kWaits);
  CHECK(bench.enter() == LiveService::Entry::kFull);
  CHECK(bench.enter(kBlue) == LiveService::Entry::kWaits);
  bench.service.leave(*bench.granted[0], Outcome::kGood);
  bench.service.leave(*bench.granted[1], Outcome::kGood);
  // Five waited, one of them the other caller's: it was among the first two.
  CHECK(bench.granted.size() == 3);
  CHECK(bench.service.picture().queued == 3);
}

TEST_CASE("live service: after failures in a row a replica rests, and a success forgives") {
  Bench bench(1, {.concurrency = 8, .queue = 10});
  for (int i = 0; i < 3; ++i) {
    CHECK(bench.enter() == LiveService::Entry::kGranted);
    bench.service.leave(*bench.granted.back(), i == 1 ? Outcome::kGood : Outcome::kBad);
  }
  CHECK(bench.enter() == LiveService::Entry::kGranted);
  for (int i = 0; i < 2; ++i) {
    bench.service.leave(*bench.granted.back(), Outcome::kBad);
    if (i == 0) CHECK(bench.enter() == LiveService::Entry::kGranted);
  }
  CHECK(bench.enter() == LiveService::Entry::kWaits);
  bench.now += std::chrono::seconds(1);
  bench.service.expire_waiters();
  CHECK(bench.service.picture().queued == 0);  // It was let in again.
}

TEST_CASE("live service: many failures at once make a replica rest as long as three in a row do") {
  Bench bench(1, {.concurrency = 100, .queue = 10});
  for (int i = 0; i < 100; ++i) CHECK(bench.enter() == LiveService::Entry::kGranted);
  for (int i = 0; i < 100; ++i) bench.service.leave(*bench.granted[0], Outcome::kBad);
  CHECK(bench.enter() == LiveService::Entry::kWaits);
  bench.now += std::chrono::milliseconds(501);
  bench.service.expire_waiters();
  CHECK(bench.service.picture().queued == 0);
}

TEST_CASE(
    "live service: the time to become ready begins when a replica can be reached, and anew when it falls "
    "silent") {
  Bench bench(0);
  const auto since = [&] { return bench.service.picture().copies.at(0).since; };
  const auto know = [&](std::uint16_t port) {
    bench.service.know({{.job = {1}, .version = "v1", .target = {"127.0.0.1", port}}});
  };
  know(0);
  bench.now += std::chrono::hours(1);  // In the queue for capacity.
  know(0);
  CHECK(bench.now - since() == std::chrono::hours(1));
  know(8000);
  CHECK(since() == bench.now);
  bench.service.set_ready({1}, true);
  bench.now += std::chrono::hours(1);
  know(8000);
  CHECK(bench.now - since() == std::chrono::hours(1));
  bench.service.set_ready({1}, false);
  CHECK(since() == bench.now);
  bench.now += std::chrono::minutes(1);
  know(0);  // Its node was lost, and it waits for another.
  CHECK(since() == bench.now);
  CHECK(!bench.service.picture().copies.at(0).ready);
}

TEST_CASE("live service: one that rests after failures says so") {
  Bench bench(1);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(bench.enter() == LiveService::Entry::kGranted);
    CHECK(!bench.service.picture().copies.at(0).resting);
    bench.service.leave(*bench.granted.back(), Outcome::kBad);
  }
  CHECK(bench.service.picture().copies.at(0).resting);
  bench.now += std::chrono::minutes(1);
  CHECK(!bench.service.picture().copies.at(0).resting);
}

TEST_CASE("live service: what was tried is not tried again, and a draining replica gets nothing") {
  Bench bench(3, {.concurrency = 8, .queue = 10});
  bench.service.drain({3});
  for (int i = 0; i < 20; ++i) {
    CHECK(bench.enter(kAcme, {JobId{1}}) == LiveService::Entry::kGranted);
    CHECK(bench.granted.back()->job == JobId{2});
    bench.service.leave(*bench.granted.back(), Outcome::kGood);
  }
  CHECK(bench.enter(kAcme, {JobId{1}, JobId{2}}) == LiveService::Entry::kWaits);
}

TEST_CASE("live service: a caller's rate is bounded") {
  Bench bench(1, {.concurrency = 100, .requests_per_second = 3});
  for (int i = 0; i < 3; ++i) CHECK(bench.enter() == LiveService::Entry::kGranted);
  CHECK(bench.enter() == LiveService::Entry::kTooFast);
  CHECK(bench.service.why_too_fast(kAcme).words.find("3 requests a second") != std::string::npos);
  CHECK(bench.service.why_too_fast(kAcme).wait == std::chrono::seconds(1));
  bench.now += std::chrono::milliseconds(334);
  CHECK(bench.enter() == LiveService::Entry::kGranted);
  CHECK(bench.enter() == LiveService::Entry::kTooFast);
  CHECK(bench.enter(kBlue) == LiveService::Entry::kGranted);
}

TEST_CASE("live service: waiters are served when a replica becomes ready") {
  Bench bench(0, {.queue = 10});
  CHECK(bench.enter() == LiveService::Entry::kWaits);
  bench.service.know({{.job = {9}, .version = "v1", .target = {"127.0.0.1", 9}}});
  CHECK(bench.granted.empty());
  bench.service.set_ready({9}, true);
  REQUIRE(bench.granted.size() == 1);
  CHECK(bench.granted.front()->job == JobId{9});
}

TEST_CASE("usage: token counts are found in a whole answer and at the end of a stream") {
  UsageReader whole;
  whole.watch("application/json; charset=utf-8");
  whole.read(R"({"choices":[],"usage":{"prompt_tokens": 12,"completion_tokens":34,"total_tokens":46}})");
  whole.finish();
  CHECK(whole.tokens_in() == 12);
  CHECK(whole.tokens_out() == 34);
  UsageReader stream;
  stream.watch("text/event-stream");
  for (int i = 0; i < 1000; ++i) stream.read("data: {\"usage\":null,\"choices\":[]}\n\n");
  for (const char* piece :
       {"data: {\"usa", "ge\":{\"prompt_tokens\":5,\"comple", "tion_tokens\":6}}\n\ndata: [DONE]\n\n"})
    stream.read(piece);
  stream.finish();
  CHECK(stream.tokens_in() == 5);
  CHECK(stream.tokens_out() == 6);
  UsageReader other;
  other.watch("text/html");
  other.read("\"usage\":{\"prompt_tokens\":5}");
  other.finish();
  CHECK(other.tokens_in() == 0);
}

TEST_CASE("live service: once it is removed nobody waits for it, and nobody begins to") {
  Bench bench(0);
  CHECK(bench.enter() == LiveService::Entry::kWaits);
  bench.service.close();
  REQUIRE(bench.granted.size() == 1);
  CHECK_FALSE(bench.granted.front());
  CHECK(bench.enter() == LiveService::Entry::kFull);
}

TEST_CASE("live service: how long requests wait in line is known, and a start is no wait in line") {
  using namespace std::chrono_literals;
  Bench bench(1, {.concurrency = 1, .queue = 10});
  CHECK(bench.enter() == LiveService::Entry::kGranted);
  CHECK(bench.enter() == LiveService::Entry::kWaits);
  bench.now += 300ms;
  CHECK(bench.service.picture().waited == 300ms);
  bench.now += 100ms;
  bench.service.leave(*bench.granted[0], Outcome::kGood);
  CHECK(bench.service.picture().queued == 0);
  CHECK(bench.service.picture().waited == 400ms);
  bench.now += 11s;
  CHECK(bench.service.picture().waited == 0ms);
  Bench cold(0);
  CHECK(cold.enter() == LiveService::Entry::kWaits);
  cold.now += 3s;
  CHECK(cold.service.picture().waited == 0ms);
}

TEST_CASE("live service: answers within the objective are counted, and failures never are") {
  using namespace std::chrono_literals;
  wire::ServiceSpec spec;
  spec.objective = wire::ServiceObjective{.p99 = 300ms};
  Bench bench(1, std::move(spec));
  bench.service.observe(100ms, true);
  bench.service.observe(300ms, true);
  bench.service.observe(301ms, true);
  bench.service.observe(1ms, false);
  CHECK(bench.service.picture().latency.requests == 4);
  CHECK(bench.service.picture().latency.in_time == 2);
}

TEST_CASE("live service: tokens of a minute are one caller's own, and what was taken beyond is made up for") {
  Bench bench(1, {.concurrency = 100, .queue = 10, .tokens_per_minute = 600});
  CHECK(bench.enter() == LiveService::Entry::kGranted);
  bench.service.count(200, kAcme, 400, 500);  // 300 beyond.
  CHECK(bench.enter() == LiveService::Entry::kTooFast);
  CHECK(bench.service.why_too_fast(kAcme).words.find("600 tokens a minute") != std::string::npos);
  CHECK(bench.service.why_too_fast(kAcme).wait == std::chrono::seconds(31));  // And one to begin with.
  CHECK(bench.enter(kBlue) == LiveService::Entry::kGranted);
  bench.now += std::chrono::seconds(29);  // 290 of them have come back.
  CHECK(bench.enter() == LiveService::Entry::kTooFast);
  bench.now += std::chrono::seconds(2);
  CHECK(bench.enter() == LiveService::Entry::kGranted);
}

// Two callers always have somebody waiting; one's requests are ten times as long.
std::pair<int, int> turns_of(wire::ServiceFairness fair) {
  Bench bench(1, {.concurrency = 1, .queue = 100, .fair = fair});
  for (int i = 0; i < 40; ++i) {
    bench.enter(kAcme);
    bench.enter(kBlue);
  }
  std::pair<int, int> turns;
  for (int i = 0; i < 44; ++i) {
    const Pick pick = *bench.granted.at(static_cast<std::size_t>(i));
    ++(pick.caller == kAcme ? turns.first : turns.second);
    bench.service.leave(pick, Outcome::kGood);
    bench.service.count(200, pick.caller, 0, pick.caller == kAcme ? 1000 : 100);
  }
  return turns;
}

TEST_CASE("live service: who waits takes turns by requests, or by tokens") {
  const auto by_requests = turns_of(wire::ServiceFairness::kRequests);
  CHECK(std::abs(by_requests.first - by_requests.second) <= 2);
  const auto by_tokens = turns_of(wire::ServiceFairness::kTokens);
  CHECK(by_tokens.second >= 7 * by_tokens.first);
  CHECK(by_tokens.first >= 3);
}

TEST_CASE("usage: an answer whose tokens count is asked for unpacked, and all else of the request stays") {
  net::Request request;
  request.method = "POST";
  request.headers.add("Host", "a");
  request.headers.add("accept-encoding", "gzip, br");
  request.headers.add("Accept", "text/event-stream");
  ask_unpacked(request);
  CHECK(request.headers.size() == 3);
  CHECK(request.header("Accept-Encoding") == "identity");
  CHECK(request.header("Host") == "a");
  CHECK(request.header("Accept") == "text/event-stream");
  net::Request page;
  page.method = "GET";
  page.headers.add("Accept-Encoding", "gzip");
  ask_unpacked(page);
  CHECK(page.header("Accept-Encoding") == "gzip");
}

TEST_CASE("usage reader: both spellings of tokens, in one piece or in the last event of a stream") {
  const auto read = [](std::string_view type, std::initializer_list<std::string_view> pieces) {
    UsageReader reader;
    reader.watch(type);
    for (const std::string_view piece : pieces) reader.read(piece);
    reader.finish();
    return std::pair(reader.tokens_in(), reader.tokens_out());
  };
  CHECK(read("application/json", {R"({"usage":{"prompt_tokens":7,"completion_tokens":5}})"}) ==
        std::pair(7UL, 5UL));
  CHECK(read("application/json; charset=utf-8", {R"({"usage": {"input_tokens" : 9, "output_tokens": 2}})"}) ==
        std::pair(9UL, 2UL));
  CHECK(read("text/event-stream",
             {"data: {\"usage\":null}\n\n",
              "data: {\"usage\":{\"prompt_to",
              "kens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n"}) == std::pair(3UL, 4UL));
  CHECK(read("text/html", {R"({"usage":{"prompt_tokens":7}})"}) == std::pair(0UL, 0UL));
}

}  // namespace
}  // namespace tranche::gateway
