// SPDX-License-Identifier: Apache-2.0
// From the text of a job file to a JobSpec: parse, translate dialects, read strictly.
#include "wire/codec_impl.hpp"
#include "wire/job_dialect.hpp"
#include "wire/job_spec.hpp"
#include "wire/yaml_document.hpp"

namespace tranche::wire {
namespace {

constexpr std::size_t kBytesMax = std::size_t{256} << 10;

bool looks_like_json(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace

Result<Document, Problem> parse_yaml_or_json(std::string_view text) {
  if (looks_like_json(text)) {
    auto json = parse_json_document(text, {.bytes_max = kBytesMax});
    if (json) return json;
    // {name: x, run: y} is YAML's flow style. Strict JSON comes first: it says duplicate from number from
    // text.
    auto yaml = parse_yaml_document(text, {.bytes_max = kBytesMax});
    return yaml ? std::move(yaml) : std::move(json);
  }
  return parse_yaml_document(text, {.bytes_max = kBytesMax});
}

Result<JobSpec, Problem> parse_job_file(std::string_view text) {
  auto document = parse_yaml_or_json(text);
  if (!document) return refuse(std::move(document.error()));
  if (auto problem = translate_job_dialect(*document)) return refuse(std::move(*problem));
  return detail::read_document<JobSpec>(*document);
}

std::string job_file_schema() {
  constexpr SchemaStyle kStyle{.reference = "#/$defs/"};
  Schemas schemas;
  collect_schemas<JobSpec>(schemas, kStyle);
  std::string out =
      R"({"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Tranche job file",)";
  std::string root = schemas.at("Job");
  schemas.erase("Job");
  out += root.substr(1, root.size() - 2) + R"(,"$defs":{)";
  bool first = true;
  for (const auto& [name, schema] : schemas) {
    if (!first) out += ',';
    first = false;
    out += '"' + name + "\":" + schema;
  }
  return out + "}}";
}

}  // namespace tranche::wire
