// SPDX-License-Identifier: Apache-2.0
#include "wire/json_items.hpp"

#include <doctest/doctest.h>
#include <vector>

#include "wire/document.hpp"

namespace tranche::wire {
namespace {

struct Cut {
  std::vector<std::string> items{};
  Result<std::string, Problem> rest{};
};

Cut cut(std::string_view json) {
  Cut out;
  out.rest = each_item(json, "items", [&](std::string_view item) {
    out.items.emplace_back(item);
    return true;
  });
  return out;
}

TEST_CASE("items: each comes as it is written, with brackets, commas and quotes in strings") {
  const Cut found = cut(R"( {"n":{"items":[9]},"items": [ {"a":"}],\"\\"} ,[1,[2]],"x,]", 3 ],"next":"7"})");
  CHECK(found.items == std::vector<std::string>{R"({"a":"}],\"\\"} )", "[1,[2]]", R"("x,]")", "3 "});
  CHECK(found.rest.value() == R"( {"n":{"items":[9]},"items": [],"next":"7"})");
  CHECK(cut(R"({"items":[]})").items.empty());
}

TEST_CASE("items: the visitor may end it") {
  int seen = 0;
  const auto rest = each_item(R"({"items":[1,2,3]})", "items", [&](std::string_view) { return ++seen < 2; });
  CHECK(seen == 2);
  CHECK(rest.value().empty());
}

TEST_CASE("items: what is no object with that list is a problem") {
  for (const char* bad : {"",
                          "[]",
                          "{}",
                          R"({"items":1})",
                          R"({"items":[1)",
                          R"({"items":[1,)",
                          R"({"items":[1,]})",
                          R"({"items":["a)",
                          R"({"items":[1}])",
                          R"({"items")",
                          R"({"items":)",
                          R"({"a":"\"}items":[])"}) {
    CAPTURE(bad);
    CHECK_FALSE(cut(bad).rest.has_value());
  }
}

TEST_CASE("items: cutting any text at any place gives a problem or what the parser reads") {
  const std::string whole =
      R"({"x":[1,{"y":"\\\""}],"items":[{"a":[1,{"b":"c\"]"}]},null,-1e5,"\u00e9"],"next":""})";
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::string json = whole.substr(0, length);
    const Cut found = cut(json);
    const auto document = parse_json_document(json, {});
    // Only the rest may still be broken, and reading it finds that.
    const bool good = found.rest.has_value() && parse_json_document(*found.rest, {}).has_value();
    CAPTURE(json);
    CHECK(good == document.has_value());
  }
  CHECK(cut(whole).items.size() == 4);
}

}  // namespace
}  // namespace tranche::wire
