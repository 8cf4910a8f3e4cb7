// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <sstream>

#include "bench/bench.hpp"

namespace tranche::bench {
namespace {

std::vector<std::string>& patterns() {
  static std::vector<std::string> all;
  return all;
}

}  // namespace

void run_only(const std::string& list) {
  std::istringstream text(list);
  for (std::string pattern; std::getline(text, pattern, ',');) patterns().push_back(pattern);
}

bool wanted(const std::string& part) {
  if (patterns().empty()) return true;
  for (const std::string& pattern : patterns())
    if (part.find(pattern) != std::string::npos) return true;
  return false;
}

void progress(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
}

}  // namespace tranche::bench
