// SPDX-License-Identifier: Apache-2.0
#include "wire/nearest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tranche::wire {
namespace {

constexpr std::size_t kLengthMax = 64;  // Longer words are not typing mistakes.

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Edits, with two neighbouring letters swapped as one: the optimal string alignment distance.
std::size_t distance(std::string_view a, std::string_view b) {
  using Row = std::array<std::size_t, kLengthMax + 1>;
  Row before_last{};
  Row last{};
  Row row{};
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped =
          i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  if (word.size() > kLengthMax) return best;
  std::size_t best_distance = 1 + std::max<std::size_t>(1, word.size() / 3);
  for (const std::string_view candidate : known) {
    if (candidate.empty() || candidate.size() > kLengthMax) continue;
    const std::size_t edits = distance(word, candidate);
    if (edits >= best_distance || edits >= candidate.size()) continue;
    best = candidate;
    best_distance = edits;
  }
  return best;
}

std::string nearest_hint(std::string_view word, std::span<const std::string_view> known) {
  const auto best = nearest(word, known);
  return best.empty() ? std::string() : "did you mean '" + std::string(best) + "'?";
}

}  // namespace tranche::wire
