// SPDX-License-Identifier: Apache-2.0
// Streams of events, and how a server ends.
#include <atomic>
#include <doctest/doctest.h>
#include <future>
#include <thread>

#include "net/internal/test_world.hpp"

namespace tranche::net {
namespace {

using test::RawSocket;
using test::Running;
using test::status_of;
using namespace std::chrono_literals;

Response event_head() {
  Response head;
  head.content_type = "text/event-stream";
  return head;
}

TEST_CASE("stream: events arrive, and a client resumes from the last one it saw") {
  const Running world({}, [](Request&& request, Reply reply) {
    const std::string last(request.header("Last-Event-ID"));
    int next = last.empty() ? 1 : std::stoi(last) + 1;
    const auto stream = reply.stream(event_head());
    for (; next <= 5; ++next)
      stream->write(sse_event(std::to_string(next), "job", "line one\nline " + std::to_string(next)));
  });
  Client client = world.client();
  std::vector<ServerEvent> seen;
  const auto take_two = [&](const ServerEvent& event) {
    seen.push_back(event);
    return seen.size() < 2;
  };
  REQUIRE(client.stream("/events", {}, take_two));
  REQUIRE(seen.size() == 2);
  CHECK(seen[1].id == "2");
  CHECK(seen[1].event == "job");
  CHECK(seen[1].data == "line one\nline 2");
  const auto take_all = [&](const ServerEvent& event) {
    seen.push_back(event);
    return true;
  };
  REQUIRE(client.stream("/events", {{"Last-Event-ID", seen.back().id}}, take_all));
  REQUIRE(seen.size() == 5);
  CHECK(seen[2].id == "3");
  CHECK(seen[4].id == "5");
}

TEST_CASE("stream: an answer that is no stream comes back as it is") {
  const Running world({}, [](Request&&, Reply reply) { reply.send(test::text_response("no", 401)); });
  const auto answer = world.client().stream("/events", {}, [](const ServerEvent&) { return true; });
  REQUIRE(answer);
  CHECK(answer->status == 401);
  CHECK(answer->body == "no");
}

TEST_CASE("stream: the connection serves further requests after a stream ended") {
  const Running world({}, [](Request&& request, Reply reply) {
    if (request.path == "/s") {
      reply.stream(event_head())->write("data: x\n\n");
    } else {
      reply.send(test::text_response("after"));
    }
  });
  RawSocket socket(world.port());
  socket.send("GET /s HTTP/1.1\r\nHost: a\r\n\r\nGET /t HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = socket.read_all();
  CHECK(all.find("9\r\ndata: x\n\n\r\n0\r\n\r\nHTTP/1.1 200 OK") != std::string::npos);
  CHECK(all.ends_with("after"));
}

TEST_CASE("stream: a reader that does not read costs a bounded queue, then it is cut") {
  ServerOptions options;
  options.stream_bytes_max = 64 * 1024;
  std::promise<std::shared_ptr<Stream>> opened;
  const Running world(options, [&](Request&&, Reply reply) { opened.set_value(reply.stream(event_head())); });
  RawSocket socket(world.port());
  socket.send("GET /s HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto stream = opened.get_future().get();
  std::promise<void> closed;
  stream->on_close([&] { closed.set_value(); });
  const std::string chunk(16 * 1024, 'e');
  std::size_t written = 0;
  while (stream->write(chunk)) {
    written += chunk.size();
    REQUIRE(written < 256U * 1024 * 1024);  // The kernel's own buffers are a few megabytes at most.
    std::this_thread::yield();
  }
  closed.get_future().wait();
  CHECK_FALSE(stream->open());
  CHECK_FALSE(stream->write("more"));
  const std::string got = socket.read_all();
  CHECK_FALSE(got.ends_with("0\r\n\r\n"));  // It can tell that this was not the end.
}

TEST_CASE("stream: a hundred dead readers do not hold up the others") {
  ServerOptions options;
  std::mutex mutex;
  std::vector<std::shared_ptr<Stream>> streams;
  const Running world(options, [&](Request&& request, Reply reply) {
    if (request.path != "/s") return reply.send(test::text_response("ok"));
    const std::lock_guard lock(mutex);
    streams.push_back(reply.stream(event_head()));
  });
  std::vector<std::unique_ptr<RawSocket>> dead;
  for (int i = 0; i < 100; ++i) {
    dead.push_back(std::make_unique<RawSocket>(world.port()));
    dead.back()->send("GET /s HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  const auto opened = [&] {  // A request counts before it is answered.
    const std::lock_guard lock(mutex);
    return streams.size();
  };
  while (opened() < 100) std::this_thread::yield();
  const std::string event = sse_event("1", "flood", std::string(32 * 1024, 'f'));
  Client client = world.client();
  int alive = 100;
  for (int round = 0; round < 2'000 && alive > 0; ++round) {
    alive = 0;
    {
      const std::lock_guard lock(mutex);
      for (const auto& stream : streams) alive += stream->write(event) ? 1 : 0;
    }
    if (round % 10 == 0) CHECK(client.get("/ok")->body == "ok");
  }
  CHECK(alive == 0);
}

TEST_CASE("stream: the client's end is told") {
  std::promise<void> closed;
  std::promise<std::shared_ptr<Stream>> opened;
  const Running world({}, [&](Request&&, Reply reply) {
    auto stream = reply.stream(event_head());
    stream->on_close([&] { closed.set_value(); });
    opened.set_value(std::move(stream));
  });
  std::shared_ptr<Stream> stream;
  {
    RawSocket socket(world.port());
    socket.send("GET /s HTTP/1.1\r\nHost: a\r\n\r\n");
    stream = opened.get_future().get();
    socket.read_until("\r\n\r\n");
  }
  closed.get_future().wait();
  CHECK_FALSE(stream->open());
}

TEST_CASE("drain: what is in flight is answered, idle connections are closed, newcomers are not accepted") {
  std::promise<Reply> waiting;
  auto world = std::make_unique<Running>(ServerOptions{}, [&](Request&& request, Reply reply) {
    if (request.path == "/slow") return waiting.set_value(std::move(reply));
    reply.send(test::text_response("quick"));
  });
  RawSocket idle(world->port());
  idle.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n");
  idle.read_until("quick");
  RawSocket busy(world->port());
  busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  Reply reply = waiting.get_future().get();
  std::future<bool> drained = std::async(std::launch::async, [&] { return world->server.drain(10s); });
  CHECK(idle.read_all().ends_with("quick"));
  CHECK_FALSE(idle.timed_out());
  RawSocket late(world->port());
  CHECK_FALSE(late.connected());
  reply.send(test::text_response("slow"));
  const std::string answer = busy.read_all();
  CHECK(answer.ends_with("slow"));
  CHECK(answer.find("Connection: close") != std::string::npos);
  CHECK(drained.get());
}

TEST_CASE("drain: a request half sent is still answered") {
  Running world;
  RawSocket socket(world.port());
  socket.send("GET /warm HTTP/1.1\r\nHost: a\r\n\r\n");
  socket.read_until("/warm");
  socket.send("POST /half HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
  Server& server = world.server;
  std::future<bool> drained = std::async(std::launch::async, [&] { return server.drain(10s); });
  while (RawSocket(world.port()).connected()) std::this_thread::yield();
  socket.send("cd");
  CHECK(socket.read_all().ends_with("POST /half? abcd"));
  CHECK(drained.get());
}

TEST_CASE("drain: patience ends, and says so") {
  std::promise<Reply> waiting;
  Running world({}, [&](Request&&, Reply reply) { waiting.set_value(std::move(reply)); });
  RawSocket socket(world.port());
  socket.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const Reply reply = waiting.get_future().get();
  CHECK_FALSE(world.server.drain(30ms));
}

TEST_CASE("drain: streams end properly") {
  std::promise<std::shared_ptr<Stream>> opened;
  Running world({}, [&](Request&&, Reply reply) { opened.set_value(reply.stream(event_head())); });
  RawSocket socket(world.port());
  socket.send("GET /s HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto stream = opened.get_future().get();
  stream->write("data: last\n\n");
  CHECK(world.server.drain(10s));
  CHECK(socket.read_all().ends_with("data: last\n\n\r\n0\r\n\r\n"));
  CHECK_FALSE(stream->open());
}

}  // namespace
}  // namespace tranche::net
