// SPDX-License-Identifier: Apache-2.0
#include "net/prober.hpp"

#include <doctest/doctest.h>
#include <future>

#include "net/internal/test_world.hpp"

namespace tranche::net {
namespace {

using test::Running;
using test::text_response;
using namespace std::chrono_literals;

TEST_CASE("prober: one that hangs holds up nobody, and is given up in time") {
  std::vector<Reply> hanging;
  Running hangs({}, [&](Request&&, Reply reply) { hanging.push_back(std::move(reply)); });
  Running good({}, [](Request&& request, Reply reply) {
    reply.send(text_response("", request.path == "/ready" ? 204 : 404));
  });
  Prober prober;
  const auto ask = [&](const Running& whom, const std::string& path, std::chrono::milliseconds patience) {
    auto told = std::make_shared<std::promise<int>>();
    prober.ask({"127.0.0.1", whom.port()}, path, patience, [told](int status) { told->set_value(status); });
    return told->get_future();
  };
  auto never = ask(hangs, "/ready", 1h), late = ask(hangs, "/ready", 300ms);
  CHECK(ask(good, "/ready", 1h).get() == 204);
  CHECK(ask(good, "/other", 1h).get() == 404);
  CHECK(late.get() == 0);
  CHECK(never.wait_for(0s) == std::future_status::timeout);
  hangs.server.stop();
}

TEST_CASE("prober: nobody there") {
  std::uint16_t port = 0;
  {
    const Running gone;
    port = gone.port();
  }
  std::promise<int> told;
  Prober prober;
  prober.ask({"127.0.0.1", port}, "/", 1h, [&](int status) { told.set_value(status); });
  CHECK(told.get_future().get() == 0);
}

}  // namespace
}  // namespace tranche::net
