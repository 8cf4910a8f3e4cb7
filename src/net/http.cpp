// SPDX-License-Identifier: Apache-2.0
#include "net/http.hpp"

#include <algorithm>
#include <charconv>

namespace tranche::net {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decode(std::string_view text, char space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i] == '+' ? space : text[i];
    }
  }
  return out;
}

}  // namespace

bool same_text_in_any_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

void Headers::add(std::string_view name, std::string_view value) {
  if (fields_.empty()) {  // As many as most requests have, in one go.
    text_.reserve(512);
    fields_.reserve(16);
  }
  Field field;
  field.name_at = static_cast<std::uint32_t>(text_.size());
  text_ += name;
  field.value_at = static_cast<std::uint32_t>(text_.size());
  text_ += value;
  field.end = static_cast<std::uint32_t>(text_.size());
  fields_.push_back(field);
}

std::pair<std::string_view, std::string_view> Headers::at(std::size_t index) const {
  const Field& field = fields_.at(index);
  const std::string_view text = text_;
  return {text.substr(field.name_at, field.value_at - field.name_at),
          text.substr(field.value_at, field.end - field.value_at)};
}

std::string_view Headers::find(std::string_view name) const {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const auto [field, value] = at(i);
    if (same_text_in_any_case(field, name)) return value;
  }
  return {};
}

std::size_t Headers::count(std::string_view name) const {
  std::size_t found = 0;
  for (std::size_t i = 0; i < fields_.size(); ++i)
    found += same_text_in_any_case(at(i).first, name) ? 1U : 0U;
  return found;
}

std::string_view Response::header(std::string_view name) const {
  for (const auto& [field, value] : headers)
    if (same_text_in_any_case(field, name)) return value;
  return {};
}

std::string_view reason_phrase(int status) {
  static const std::map<int, std::string_view> kPhrases = {
      {100, "Continue"},
      {101, "Switching Protocols"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {402, "Payment Required"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {421, "Misdirected Request"},
      {422, "Unprocessable Content"},
      {426, "Upgrade Required"},
      {428, "Precondition Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {507, "Insufficient Storage"},
  };
  const auto found = kPhrases.find(status);
  return found == kPhrases.end() ? "Status" : found->second;
}

std::optional<std::string> percent_decode(std::string_view text) {
  return decode(text, '+');
}

std::string percent_encode(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  static constexpr std::string_view kPlain = "-._~";
  std::string out;
  for (const char c : text) {
    const bool alphanumeric = (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
    if (alphanumeric || kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    }
  }
  return out;
}

std::optional<QueryParameters> parse_query(std::string_view query) {
  QueryParameters out;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = decode(pair.substr(0, equals), ' ');
    auto value = decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), ' ');
    if (!name || !value) return std::nullopt;
    out.emplace_back(std::move(*name), std::move(*value));
  }
  return out;
}

std::optional<Url> parse_url(std::string_view text) {
  Url url;
  const std::size_t mark = text.find("://");
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view scheme = text.substr(0, mark);
  url.tls = same_text_in_any_case(scheme, "https") || same_text_in_any_case(scheme, "wss");
  if (!url.tls && !same_text_in_any_case(scheme, "http") && !same_text_in_any_case(scheme, "ws"))
    return std::nullopt;
  text.remove_prefix(mark + 3);
  std::string_view authority = text.substr(0, text.find_first_of("/?#"));
  text.remove_prefix(authority.size());
  if (authority.find('@') != std::string_view::npos) return std::nullopt;
  if (!text.empty()) url.path = text.front() == '/' ? std::string(text) : "/" + std::string(text);
  url.port = url.tls ? 443 : 80;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    url.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
  } else {
    url.host = authority.substr(0, authority.find(':'));
    authority.remove_prefix(url.host.size());
  }
  if (url.host.empty()) return std::nullopt;
  if (authority.empty()) return url;
  authority.remove_prefix(1);
  const auto [end, error] = std::from_chars(authority.begin(), authority.end(), url.port);
  if (error != std::errc{} || end != authority.end()) return std::nullopt;
  return url;
}

}  // namespace tranche::net
