// SPDX-License-Identifier: Apache-2.0
#include "app/log.hpp"

#include <chrono>
#include <cstdio>

#include "base/text.hpp"
#include "base/wall_clock.hpp"

namespace tranche::app {

void Log::write(const char* level, const std::string& line) {
  std::string out;
  append_text(out, wall_clock());
  out += ' ';
  out += level;
  out += ' ';
  for (const char c : line) out += c == '\n' ? ' ' : c;
  out += '\n';
  std::fputs(out.c_str(), stderr);
}

}  // namespace tranche::app
