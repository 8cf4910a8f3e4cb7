// SPDX-License-Identifier: Apache-2.0
#include "api/problem.hpp"

#include "wire/api_job.hpp"

namespace tranche::api {
namespace {

ProblemKind kind_of(wire::Reason reason) {
  using wire::Reason;
  switch (reason) {
    case Reason::kNotFound:
      return {404, "not-found", "Not found"};
    case Reason::kForbidden:
      return {403, "forbidden", "Not allowed"};
    case Reason::kInvalid:
      return {422, "invalid", "Makes no sense as asked"};
    case Reason::kConflict:
      return {409, "conflict", "In conflict with what exists"};
    case Reason::kStale:
      return {412, "stale", "Changed in the meantime"};
    case Reason::kReused:
      return {422, "idempotency-key-reused", "Idempotency key used for something else"};
    case Reason::kQuota:
      return {403, "quota", "Refused by quota"};
    case Reason::kPolicy:
      return {403, "policy", "Refused by policy"};
    case Reason::kBudget:
      return {403, "budget", "Refused by budget"};
  }
  return {500, "internal", "Internal error"};
}

net::Response make(ProblemKind kind, wire::ProblemDetails details) {
  details.type = "urn:tranche:problem:" + std::string(kind.name);
  details.title = kind.title;
  details.status = kind.status;
  net::Response response = json_response(kind.status, wire::to_json(details));
  response.content_type = "application/problem+json";
  return response;
}

}  // namespace

net::Response json_response(int status, std::string body) {
  net::Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

net::Response document(std::string content_type, std::string body) {
  net::Response response = json_response(200, std::move(body));
  response.content_type = std::move(content_type);
  return response;
}

net::Response versioned(net::Response response, std::uint64_t version) {
  response.headers.emplace_back("ETag", '"' + std::to_string(version) + '"');
  return response;
}

net::Response no_content() {
  net::Response response;
  response.status = 204;
  response.content_type.clear();
  return response;
}

net::Response problem(const wire::Refusal& refusal, std::string_view request_id) {
  return make(kind_of(refusal.reason),
              {.detail = refusal.message,
               .fix = refusal.fix,
               .request_id = std::string(request_id),
               .reasons = {refusal}});
}

net::Response problem(server::Fault fault, std::string_view request_id) {
  const std::string id(request_id);
  switch (fault) {
    case server::Fault::kDiskFull:
      return make({507, "disk-full", "The server's disk is full"},
                  {.detail = "nothing was written; reading and stopping still work",
                   .fix = "try again when the operator has made room",
                   .request_id = id});
    case server::Fault::kBusy:
    case server::Fault::kStopping:
    case server::Fault::kNone:
      break;
  }
  net::Response response =
      make({503, "unavailable", "The server cannot take this now"},
           {.detail = fault == server::Fault::kBusy ? "too much is waiting" : "the server is ending",
            .fix = "try again in a second, with the same Idempotency-Key",
            .request_id = id});
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

net::Response problem(const wire::Problem& what, std::string_view request_id) {
  return make({400, "bad-request", "The request cannot be read"},
              {.detail = what.path.empty() ? what.message : what.path + ": " + what.message,
               .fix = what.hint,
               .request_id = std::string(request_id)});
}

net::Response problem(ProblemKind kind, std::string detail, std::string fix, std::string_view request_id) {
  return make(kind,
              {.detail = std::move(detail), .fix = std::move(fix), .request_id = std::string(request_id)});
}

net::Response unauthenticated(std::string_view request_id) {
  net::Response response =
      problem({401, "unauthenticated", "Not logged in"},
              "there is no token in the request, or it is unknown, revoked or has run out",
              "log in: tranche login",
              request_id);
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace tranche::api
