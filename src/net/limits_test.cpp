// SPDX-License-Identifier: Apache-2.0
// What a bad or slow client meets: limits, deadlines, refusals, and requests meant to be read in two ways.
#include <array>
#include <cstdio>
#include <doctest/doctest.h>
#include <future>
#include <optional>
#include <thread>

#include "base/random.hpp"
#include "net/internal/request_reader.hpp"
#include "net/internal/test_world.hpp"

namespace tranche::net {
namespace {

using test::RawSocket;
using test::Running;
using test::status_of;
using namespace std::chrono_literals;

std::string answer_to(std::uint16_t port, std::string_view bytes) {
  RawSocket socket(port);
  socket.send(bytes);
  return socket.read_all();
}

TEST_CASE("limits: what is too large is named, and the connection ends") {
  ServerOptions options;
  options.header_bytes_max = 2'000;
  options.body_bytes_max = 1'000;
  const Running world(options);
  const std::string kilobytes(4'000, 'x');
  const std::string host = "Host: a\r\n";
  CHECK(status_of(answer_to(world.port(), "GET /" + kilobytes + " HTTP/1.1\r\n" + host + "\r\n")) == 414);
  CHECK(status_of(answer_to(world.port(), "GET / HTTP/1.1\r\n" + host + "X: " + kilobytes + "\r\n\r\n")) ==
        431);
  std::string many = "GET / HTTP/1.1\r\n" + host;
  for (int i = 0; i < 150; ++i) many += "A: b\r\n";
  CHECK(status_of(answer_to(world.port(), many + "\r\n")) == 431);
  CHECK(status_of(answer_to(world.port(), "POST / HTTP/1.1\r\n" + host + "Content-Length: 1001\r\n\r\n")) ==
        413);
  CHECK(status_of(answer_to(
            world.port(),
            "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + kilobytes)) == 413);
  CHECK(status_of(answer_to(world.port(),
                            "POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n")) ==
        400);
  CHECK(
      status_of(answer_to(world.port(),
                          "POST / HTTP/1.1\r\n" + host + "Content-Length: 1000\r\nConnection: close\r\n\r\n" +
                              std::string(1'000, 'y'))) == 200);
}

TEST_CASE("limits: header fields that come one packet at a time count together") {
  ServerOptions options;
  options.header_bytes_max = 2'000;
  const Running world(options);
  RawSocket socket(world.port());
  socket.send("GET / HTTP/1.1\r\nHost: a\r\n");
  const std::string field = "X-Pad: " + std::string(100, 'x') + "\r\n";
  for (int i = 0; i < 60 && socket.send(field); ++i) std::this_thread::yield();
  CHECK(status_of(socket.read_all()) == 431);
}

TEST_CASE("limits: a client that keeps sending a refused body still reads the refusal") {
  ServerOptions options;
  options.body_bytes_max = 1'000;
  const Running world(options);
  RawSocket socket(world.port());
  socket.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  socket.send(std::string(1'000'000, 'z'));
  CHECK(status_of(socket.read_all()) == 413);
}

TEST_CASE("limits: methods, versions and codings unknown here are named as such") {
  const Running world;
  CHECK(status_of(answer_to(world.port(), "BREW / HTTP/1.1\r\nHost: a\r\n\r\n")) == 501);
  CHECK(status_of(answer_to(world.port(), "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n")) == 501);
  CHECK(status_of(answer_to(world.port(), "GET / HTTP/2.0\r\nHost: a\r\n\r\n")) == 505);
  CHECK(status_of(answer_to(
            world.port(),
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")) == 501);
}

TEST_CASE(
    "limits: a request that two readers could read differently is refused, and nothing after it is read") {
  const Running world;
  const std::string tail = "\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::array<std::string, 27> bad = {
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3 3\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0b"
      "chunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nX: b\r\n Transfer-Encoding: chunked\r\n\r\n0",
      "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000",
      "GET / HTTP/1.1\nHost: a",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b",
      "GET / HTTP/1.1\r\nX: no host",
  };
  for (const std::string& request : bad) {
    CAPTURE(request);
    const std::string answer = answer_to(world.port(), request + tail);
    CHECK((status_of(answer) == 400 || status_of(answer) == 501));
    CHECK(test::count_of(answer, "HTTP/1.1 ") == 1);
    CHECK(answer.find("Connection: close") != std::string::npos);
    CHECK(answer.find("smuggled") == std::string::npos);
  }
}

TEST_CASE("limits: garbage, a thousand times over, ends in a refusal and never in a crash") {
  const Running world;
  const std::uint64_t seed = 20'261'115;
  std::printf("garbage seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  const std::array<std::string_view, 12> words = {"GET ",
                                                  "/",
                                                  " HTTP/1.1",
                                                  "\r\n",
                                                  "Host: a",
                                                  "Content-Length: ",
                                                  "Transfer-Encoding: chunked",
                                                  "\r\n\r\n",
                                                  "0\r\n",
                                                  "ffff",
                                                  ":",
                                                  "\0"};
  for (int i = 0; i < 1'000; ++i) {
    std::string garbage;
    const std::uint64_t pieces = 1 + random.below(12);
    for (std::uint64_t j = 0; j < pieces; ++j) {
      if (random.below(3) == 0) {
        for (std::uint64_t k = random.below(20); k > 0; --k) garbage += static_cast<char>(random.below(256));
      } else {
        garbage += words[random.below(words.size())];
      }
    }
    RawSocket socket(world.port());
    socket.send(garbage);
    socket.finish_sending();
    socket.read_all();
    REQUIRE_FALSE(socket.timed_out());
  }
  CHECK(world.client().get("/alive")->status == 200);
}

TEST_CASE("limits: a reader fed one byte at a time comes to the same result as fed at once") {
  const std::array<std::string_view, 6> inputs = {
      "\r\n\r\nGET /a?b HTTP/1.1\r\nHost: a\r\nX-Y: z\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n",
      "GET http://host/abs?q HTTP/1.1\r\nHost: host\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"};
  for (const std::string_view input : inputs) {
    CAPTURE(input);
    RequestReader whole({});
    std::size_t used = 0;
    REQUIRE(whole.read(input, used) == RequestReader::Outcome::kRequest);
    CHECK(used == input.size());
    const Request expected = whole.take();
    RequestReader reader({});
    std::string pending;
    std::optional<Request> got;
    for (const char byte : input) {
      pending += byte;
      const auto outcome = reader.read(pending, used);
      REQUIRE(outcome != RequestReader::Outcome::kRefused);
      pending.erase(0, used);
      if (outcome == RequestReader::Outcome::kRequest) got = reader.take();
    }
    REQUIRE(got);
    CHECK(got->path == expected.path);
    CHECK(got->query == expected.query);
    CHECK(got->body == expected.body);
    CHECK(got->headers.size() == expected.headers.size());
  }
}

TEST_CASE("deadlines: a slow header and a slow body are answered 408, an idle connection is closed") {
  ServerOptions options;
  options.header_timeout = 60ms;
  options.body_timeout = 60ms;
  options.idle_timeout = 60ms;
  const Running world(options);
  RawSocket slow_header(world.port());
  RawSocket slow_body(world.port());
  RawSocket silent(world.port());
  RawSocket idle(world.port());
  slow_header.send("GET / HTTP/1.1\r\nHost");
  slow_body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
  idle.send("GET /once HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(status_of(slow_header.read_all()) == 408);
  CHECK(status_of(slow_body.read_all()) == 408);
  CHECK(silent.read_all().empty());
  CHECK(idle.read_all().ends_with("GET /once? "));
  CHECK_FALSE((slow_header.timed_out() || slow_body.timed_out() || silent.timed_out() || idle.timed_out()));
}

TEST_CASE("deadlines: a header that trickles is cut off, however steadily it trickles") {
  ServerOptions options;
  options.header_timeout = 100ms;
  const Running world(options);
  RawSocket socket(world.port());
  socket.send("GET / HTTP/1.1\r\nHost: a\r\n");
  while (!socket.read_some(10ms) && socket.send("A: b\r\n")) {
    if (!socket.timed_out()) break;
  }
  CHECK(status_of(socket.read_all()) == 408);
}

TEST_CASE("deadlines: a handler that never answers is a 504, and its late answer goes nowhere") {
  ServerOptions options;
  options.answer_timeout = 60ms;
  std::promise<Reply> waiting;
  const Running world(options, [&](Request&&, Reply reply) { waiting.set_value(std::move(reply)); });
  RawSocket socket(world.port());
  socket.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string answer = socket.read_all();
  CHECK(status_of(answer) == 504);
  waiting.get_future().get().send(test::text_response("late"));
  CHECK(answer.find("late") == std::string::npos);
}

TEST_CASE("deadlines: a client that stops reading a large answer is cut off") {
  ServerOptions options;
  options.write_timeout = 60ms;
  const Running world(options, [](Request&&, Reply reply) {
    reply.send(test::text_response(std::string(32 * 1024 * 1024, 'x')));
  });
  RawSocket socket(world.port());
  socket.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  while (world.server.counts().requests == 0 || world.server.counts().connections > 0)
    std::this_thread::yield();
  CHECK(socket.read_all().size() < 32 * 1024 * 1024);
}

TEST_CASE("limits: a connection too many is told 503 and the others are not disturbed") {
  ServerOptions options;
  options.connections_max = 2;
  const Running world(options);
  Client first = world.client();
  Client second = world.client();
  REQUIRE(first.get("/1"));
  REQUIRE(second.get("/2"));
  RawSocket third(world.port());
  CHECK(status_of(third.read_all()) == 503);
  CHECK(first.get("/1")->status == 200);
  first.disconnect();
  while (world.server.counts().connections > 1) std::this_thread::yield();
  CHECK(world.client().get("/4")->status == 200);
}

}  // namespace
}  // namespace tranche::net
