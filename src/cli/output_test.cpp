// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <doctest/doctest.h>

namespace tranche::cli {
namespace {

TEST_CASE("table: columns line up, numbers to the right, nothing is cut") {
  Table table({{"JOB"}, {"GPUS", Align::kRight}, {"NAME"}});
  table.add({"job_000001", "0.5", "a"});
  table.add({"job_2", "12", "größer"});
  CHECK(table.text() ==
        "JOB         GPUS  NAME\n"
        "job_000001   0.5  a\n"
        "job_2         12  größer\n");
}

TEST_CASE("table: wide columns show only when asked for, and always in CSV") {
  Table table({{"JOB"}, {"WHY", Align::kLeft, Show::kWide}});
  table.add({"j", "said \"no\", twice"});
  CHECK(table.text() == "JOB\nj\n");
  CHECK(table.text(Show::kWide) == "JOB  WHY\nj    said \"no\", twice\n");
  CHECK(table.csv() == "JOB,WHY\nj,\"said \"\"no\"\", twice\"\n");
}

TEST_CASE("table: control characters of somebody else's text do not reach the terminal") {
  Table table({{"NAME"}});
  table.add({"a\033[31mb\n"});
  CHECK(table.text() == "NAME\na [31mb\n");
}

TEST_CASE("output: every name is taken and any other is answered with the list") {
  CHECK(parse_output("yaml") == Output::kYaml);
  CHECK_THROWS_WITH(parse_output("xml"), "-o takes table, wide, json, jsonl, yaml, csv or name, not 'xml'");
}

TEST_CASE("output: JSON is indented without changing it") {
  CHECK(
      indented_json(R"({"a":[1,{"b":null}],"c":{},"d":"x\ny"})") ==
      "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": {},\n  \"d\": \"x\\ny\"\n}\n");
  CHECK(indented_json("no json") == "no json");
}

TEST_CASE("output: a list becomes a line an item, an object one line") {
  CHECK(json_lines(R"({"items":[{"a":1},{"a":2}],"next":""})") == "{\"a\":1}\n{\"a\":2}\n");
  CHECK(json_lines(R"({"a":1})") == "{\"a\":1}\n");
}

TEST_CASE("output: YAML quotes what a reader could take for something else") {
  CHECK(yaml_of_json(R"({"items":[{"id":"job_1","on":"no","n":1,"deep":[["x"],[]]},{"id":"10"}],"e":{}})") ==
        "items:\n"
        "  - id: job_1\n"
        "    \"on\": \"no\"\n"
        "    \"n\": 1\n"
        "    deep:\n"
        "      - - x\n"
        "      - []\n"
        "  - id: \"10\"\n"
        "e: {}\n");
  CHECK(yaml_of_json("[]") == "[]\n");
}

}  // namespace
}  // namespace tranche::cli
