// SPDX-License-Identifier: Apache-2.0
#include "cli/failure.hpp"

#include <doctest/doctest.h>

#include "cli/session.hpp"

namespace tranche::cli {
namespace {

using wire::ProblemDetails;
using wire::Reason;
using wire::Refusal;

ProblemDetails over_quota() {
  return {.type = "https://tranche.dev/problems/quota",
          .title = "over quota",
          .status = 422,
          .request_id = "req_7",
          .reasons = {Refusal{.reason = Reason::kQuota,
                              .rule = "gpu_milli",
                              .where = "acme/research",
                              .message = "acme/research is at its limit",
                              .fix = "ask for 0.5",
                              .limit = 4000,
                              .used = 3500,
                              .asked = 1000}}};
}

TEST_CASE("failure: a refusal says what, why in its units, what next, and where to look, in three lines") {
  const Failure failure = failure_of(over_quota());
  CHECK(failure.code() == kRefused);
  CHECK(failure.text() ==
        "tranche: acme/research is at its limit\n"
        "  gpu_milli of acme/research: limit 4 GPUs, used 3.5 GPUs, asked 1 GPU; next: ask for 0.5\n"
        "  (https://tranche.dev/problems/quota, request req_7)\n");
}

TEST_CASE("failure: what one job may have is not used up") {
  ProblemDetails problem = over_quota();
  problem.reasons[0].rule = "wall_time_max";
  problem.reasons[0].limit = 8 * 3600;
  problem.reasons[0].used = 0;
  problem.reasons[0].asked = 10 * 3600;
  CHECK(failure_of(problem).lines()[1] ==
        "wall_time_max of acme/research: limit 8h, asked 10h; next: ask for 0.5");
}

TEST_CASE("failure: a rule without numbers is named, too") {
  ProblemDetails problem = over_quota();
  problem.reasons[0] = {.reason = Reason::kPolicy,
                        .rule = "may_buy",
                        .where = "acme",
                        .message = "acme does not let anybody below it buy on the exchange",
                        .fix = "ask its administrator"};
  CHECK(failure_of(problem).lines()[1] == "rule: may_buy of acme; next: ask its administrator");
  problem.reasons[0].rule = "rule 'training at night'";
  CHECK(failure_of(problem).lines()[1] == "rule 'training at night' of acme; next: ask its administrator");
  problem.reasons[0].rule.clear();
  CHECK(failure_of(problem).lines()[1] == "next: ask its administrator");
}

TEST_CASE("failure: line breaks in a server's text do not make more than three lines") {
  ProblemDetails problem = over_quota();
  problem.reasons[0].message = "one\ntwo\033[2J";
  CHECK(failure_of(problem).lines().size() == 3);
  CHECK(failure_of(problem).lines()[0] == "one two [2J");
}

TEST_CASE("failure: each kind of problem has its exit code") {
  const auto code = [](int status) { return exit_code_of({.status = status}); };
  CHECK(code(400) == kUsage);
  CHECK(code(422) == kUsage);
  CHECK(code(401) == kForbidden);
  CHECK(code(403) == kForbidden);
  CHECK(code(404) == kNotFound);
  CHECK(code(409) == kConflict);
  CHECK(code(412) == kConflict);
  CHECK(code(503) == kUnreachable);
  CHECK(code(507) == kOther);
  for (const Reason reason : {Reason::kQuota, Reason::kPolicy, Reason::kBudget}) {
    CHECK(exit_code_of({.status = 403, .reasons = {Refusal{.reason = reason}}}) == kRefused);
  }
  CHECK(exit_code_of({.status = 409, .reasons = {Refusal{.reason = Reason::kStale}}}) == kConflict);
  CHECK(exit_code_of({.type = "https://tranche.dev/problems/no-capacity", .status = 503}) == kNoCapacity);
}

TEST_CASE("failure: a server that is not there is told apart from one that refuses") {
  const Failure failure =
      failure_of(net::ClientFault{.kind = net::FaultKind::kUnreachable, .message = "127.0.0.1:1: refused"},
                 "http://127.0.0.1:1");
  CHECK(failure.code() == kUnreachable);
  CHECK(failure.lines().size() == 2);
}

TEST_CASE("failure: an answer that is no problem document still has a code and a next step") {
  const Failure failure =
      failure_of_response({.status = 404, .content_type = "text/html", .body = "<html>", .headers = {}});
  CHECK(failure.code() == kNotFound);
  CHECK(failure.lines()[0] == "the server answered 404 Not Found");
  CHECK(failure.lines()[1].find("tranche doctor") != std::string::npos);
}

TEST_CASE("session: the curl equivalent names the token and never shows it") {
  const Target target{.server = "http://127.0.0.1:7878", .token = "secret"};
  const Call call{.method = "POST", .path = "/v1/tenants", .body = R"({"name":"it's"})"};
  const std::string text =
      curl_text(target, call, {{"Authorization", "Bearer secret"}, {"Idempotency-Key", "k"}});
  CHECK(text ==
        "curl -sS -X POST -H \"Authorization: Bearer $TRANCHE_TOKEN\" -H 'Idempotency-Key: k' "
        "--data '{\"name\":\"it'\\''s\"}' http://127.0.0.1:7878/v1/tenants");
}

}  // namespace
}  // namespace tranche::cli
