// SPDX-License-Identifier: Apache-2.0
#include "api/openapi.hpp"

#include <array>
#include <map>

#include "wire/api_job.hpp"

namespace tranche::api {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string_view about_tag(std::string_view tag) {
  struct About {
    std::string_view tag, about;
  };
  constexpr std::array kAbout{
      About{"access", "Who one is, roles, tokens and passwords"},
      About{"audit", "What happened, and the proof that it did"},
      About{"events", "What happens, as it happens"},
      About{"jobs", "Work: submit, look at, explain, stop"},
      About{"parties", "The tree of who: tenants, subscribers, users, service accounts"},
      About{"platform", "What the operator sets for all"},
      About{"quotas", "What a node of the tree may hold, and its rules"},
      About{"system", "Health, metrics, and this document"}};
  for (const auto& [name, about] : kAbout) {
    if (name == tag) return about;
  }
  return tag;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string content(const Body& body) {
  return R"("content":{"application/json":{"schema":{"$ref":"#/components/schemas/)" + body.name() +
         R"("}}})";
}

void append_parameter(std::string& list, std::string_view name, std::string_view in) {
  if (!list.empty()) list += ',';
  list += "{\"name\":" + json_string(name) + ",\"in\":" + json_string(in) +
          (in == "path" ? ",\"required\":true" : "") + R"(,"schema":{"type":"string"}})";
}

std::string parameters(const Route& route) {
  std::string list;
  for (std::size_t at = route.path.find('{'); at != std::string_view::npos;
       at = route.path.find('{', at + 1)) {
    append_parameter(list, route.path.substr(at + 1, route.path.find('}', at) - at - 1), "path");
  }
  for (const std::string_view name : route.query) append_parameter(list, name, "query");
  if (route.method != "GET") append_parameter(list, "Idempotency-Key", "header");
  if (route.method == "PUT" || route.method == "PATCH") append_parameter(list, "If-Match", "header");
  return '[' + list + ']';
}

std::string responses(const Route& route) {
  std::string out = "{" + json_string(std::to_string(route.status)) + ":{\"description\":\"Done\"";
  if (route.gives.name != nullptr) out += ',' + content(route.gives);
  out += "}";
  const std::string problem =
      R"~({"description":"A problem (RFC 9457)","content":{"application/problem+json":)~"
      R"({"schema":{"$ref":"#/components/schemas/ProblemDetails"}}}})";
  for (const std::string_view status : {"400", "401", "403", "404", "4XX", "5XX"}) {
    if (route.auth == Auth::kNone && (status == "401" || status == "403")) continue;
    out += ',' + json_string(status) + ':' + problem;
  }
  return out + '}';
}

std::string operation(const Route& route) {
  std::string out = "{\"operationId\":" + json_string(route.id) + ",\"tags\":[" + json_string(route.tag) +
                    "],\"summary\":" + json_string(route.summary) + ",\"parameters\":" + parameters(route);
  if (route.takes.name != nullptr) out += R"(,"requestBody":{"required":true,)" + content(route.takes) + '}';
  out += ",\"responses\":" + responses(route);
  out += route.auth == Auth::kToken ? R"(,"security":[{"token":[]}])" : R"(,"security":[])";
  return out + '}';
}

}  // namespace

std::string make_openapi(const std::vector<Route>& routes, std::string_view version) {
  std::map<std::string_view, std::string> paths;
  std::map<std::string_view, bool> tags;
  wire::Schemas schemas;
  wire::collect_schemas<wire::ProblemDetails>(schemas);
  for (const Route& route : routes) {
    std::string& methods = paths[route.path];
    methods += (methods.empty() ? "" : ",") + json_string(lower(route.method)) + ':' + operation(route);
    tags[route.tag] = true;
    for (const Body& body : {route.takes, route.gives}) {
      if (body.collect != nullptr) body.collect(schemas, {});
    }
  }
  std::string out =
      R"({"openapi":"3.1.0","info":{"title":"Tranche","version":)" + json_string(version) +
      R"(,"summary":"Shared, schedulable, tradable GPU capacity",)"
      R"("license":{"name":"Apache-2.0","identifier":"Apache-2.0"}},"servers":[{"url":"/"}],"tags":[)";
  bool first = true;
  for (const auto& [tag, used] : tags) {
    out += (first ? "" : ",") +
           ("{\"name\":" + json_string(tag) + ",\"description\":" + json_string(about_tag(tag)) + '}');
    first = false;
  }
  out += "],\"paths\":{";
  first = true;
  for (const auto& [path, methods] : paths) {
    out += (first ? "" : ",") + json_string(path) + ":{" + methods + '}';
    first = false;
  }
  out += R"(},"components":{"securitySchemes":{"token":{"type":"http","scheme":"bearer"}},"schemas":{)";
  first = true;
  for (const auto& [name, schema] : schemas) {
    out += (first ? "" : ",") + json_string(name) + ':' + schema;
    first = false;
  }
  return out + "}}}";
}

}  // namespace tranche::api
