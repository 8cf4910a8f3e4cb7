// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line an event on stderr, where systemd and people look for it. Never a secret, never a token.
#include <string>

namespace tranche::app {

class Log {
 public:
  void info(const std::string& line) const { write("info", line); }
  void error(const std::string& line) const { write("error", line); }

 private:
  static void write(const char* level, const std::string& line);
};

}  // namespace tranche::app
