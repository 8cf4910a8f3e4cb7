// SPDX-License-Identifier: Apache-2.0
#pragma once
// The JSON form of the values of base: instants, durations, money, sizes and ids are one string or number.
#include <charconv>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "wire/fields.hpp"

namespace tranche::wire {

template <>
struct TextForm<Instant> {
  static constexpr std::string_view kSchema = R"("type":"string","format":"date-time")";
  static constexpr bool kNumbers = false;
  static void append(std::string& json, Instant value) {
    json += '"';
    append_text(json, value);
    json += '"';
  }
  static Result<Instant, std::string> parse(std::string_view text) {
    if (const auto value = parse_instant(text)) return *value;
    return refuse(std::string("must be a time such as 2026-11-15T20:00:00Z"));
  }
};

template <>
struct TextForm<Duration> {
  static constexpr std::string_view kSchema =
      R"("type":["string","integer"],"examples":["30m","1h30m","90s",90],"x-unit":"seconds when a number")";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, Duration value) {
    json += '"';
    append_text(json, value);
    json += '"';
  }
  static Result<Duration, std::string> parse(std::string_view text) {
    if (const auto value = parse_duration(text)) return *value;
    return refuse(std::string("must be a duration such as 30m, 1h30m or 90 (seconds)"));
  }
};

template <>
struct TextForm<Money> {
  static constexpr std::string_view kSchema = R"("type":["string","number"],"examples":["1.25"])";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, Money value) {
    json += '"';
    append_text(json, value);
    json += '"';
  }
  static Result<Money, std::string> parse(std::string_view text) {
    if (const auto value = parse_money(text)) return *value;
    return refuse(std::string("must be an amount such as \"1.25\", with at most six decimals"));
  }
};

template <>
struct TextForm<Bytes> {
  static constexpr std::string_view kSchema =
      R"("type":["integer","string"],"examples":[20000000000,"20GB","20GiB"],"x-unit":"bytes; GB = 10^9, GiB = 2^30")";
  static constexpr bool kNumbers = true;
  static void append(std::string& json, Bytes value) { json += std::to_string(value.count); }
  static Result<Bytes, std::string> parse(std::string_view text) {
    if (const auto value = parse_bytes(text)) return *value;
    return refuse(
        std::string("must be a size such as 20GB (10^9 bytes), 20GiB (2^30 bytes) or a count of bytes"));
  }
};

// Ids outside base join by having a static constexpr kIdPrefix.
template <class Id>
constexpr std::string_view id_prefix() {
  if constexpr (requires { Id::kIdPrefix; }) {
    return Id::kIdPrefix;
  } else if constexpr (std::is_same_v<Id, JobId>) {
    return "job_";
  } else if constexpr (std::is_same_v<Id, TokenId>) {
    return "tok_";
  } else if constexpr (std::is_same_v<Id, NodeId>) {
    return "node_";
  } else if constexpr (std::is_same_v<Id, DeviceId>) {
    return "gpu_";
  } else if constexpr (std::is_same_v<Id, LeaseId>) {
    return "lease_";
  } else if constexpr (std::is_same_v<Id, ClaimId>) {
    return "clm_";
  } else {
    static_assert(std::is_same_v<Id, PartyId>, "an id needs a prefix: give it a static constexpr kIdPrefix");
    return "";
  }
}

// A zero id is "none": JSON shows the empty string, and takes it back.
template <class Id>
  requires IsId<Id>
struct TextForm<Id> {
  static constexpr std::string_view kSchema = R"("type":"string")";
  static constexpr bool kNumbers = false;
  static std::string plain(Id value) {
    if (value.value == 0) return {};
    if constexpr (std::is_same_v<Id, PartyId>) {
      return tranche::text(value);
    } else {
      return id_text(id_prefix<Id>(), value.value);
    }
  }
  static void append(std::string& json, Id value) {
    json += '"';
    json += plain(value);
    json += '"';
  }
  static Result<Id, std::string> parse(std::string_view text) {
    if (text.empty()) return Id{};
    if constexpr (std::is_same_v<Id, PartyId>) {
      if (const auto value = parse_party_id(text)) return *value;
      return refuse(std::string("must be an id such as ten_000001, sub_000001 or usr_000001"));
    } else {
      if (const auto value = parse_id(id_prefix<Id>(), text)) return Id{*value};
      return refuse("must be an id such as " + id_text(id_prefix<Id>(), 1));
    }
  }
};

}  // namespace tranche::wire
