// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON that is passed on as it is: the fields of an event whose type the reader need not know.
#include <string>
#include <string_view>

#include "wire/fields.hpp"

namespace tranche::wire {

struct RawJson {
  std::string text = "null";
};

template <>
struct TextForm<RawJson> {
  static constexpr std::string_view kSchema = R"("description":"any JSON value")";
  static constexpr bool kNumbers = false;
  static void append(std::string& json, const RawJson& value) { json += value.text; }
  static Result<RawJson, std::string> parse(std::string_view) {
    return refuse(std::string("is read as a whole, never from a scalar"));
  }
};

}  // namespace tranche::wire
