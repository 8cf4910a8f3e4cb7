// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON written in the order it is said, for reports. Numbers keep six significant places after the point.
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tranche::sim {

class JsonText {
 public:
  void open(char bracket) {
    separate();
    text_ += bracket;
    fresh_ = true;
    ++depth_;
  }
  void close(char bracket) {
    --depth_;
    if (!fresh_) new_line();
    text_ += bracket;
    fresh_ = false;
  }
  void key(std::string_view name) {
    separate();
    quote(name);
    text_ += ": ";
    after_key_ = true;
  }
  void value(std::string_view word) {
    separate();
    quote(word);
  }
  void value(bool truth) {
    separate();
    text_ += truth ? "true" : "false";
  }
  void value(double number) {
    separate();
    if (!std::isfinite(number)) {
      text_ += "null";
      return;
    }
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.6f", number);
    std::string shown = digits;
    while (shown.back() == '0') shown.pop_back();
    if (shown.back() == '.') shown.pop_back();
    text_ += shown;
  }
  void value(std::integral auto number) {
    separate();
    text_ += std::to_string(number);
  }
  void value(const char* word) { value(std::string_view(word)); }
  void value(const std::string& word) { value(std::string_view(word)); }
  void field(std::string_view name, const auto& held) {
    key(name);
    value(held);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void separate() {
    if (after_key_) {
      after_key_ = false;
      return;
    }
    if (!fresh_) text_ += ',';
    if (depth_ > 0) new_line();
    fresh_ = false;
  }
  void new_line() { text_ += '\n' + std::string(static_cast<std::size_t>(depth_) * 2, ' '); }
  void quote(std::string_view word) {
    text_ += '"';
    for (const char c : word) {
      if (c == '"' || c == '\\') text_ += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        text_ += escape;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  std::string text_;
  int depth_ = 0;
  bool fresh_ = true;
  bool after_key_ = false;
};

}  // namespace tranche::sim
