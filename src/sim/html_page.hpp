// SPDX-License-Identifier: Apache-2.0
#pragma once
// A report as one HTML file that needs nothing else: figures, bars, lines. Always marked as simulated.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tranche::sim {

enum class Axis { kLinear, kLogSeconds };  // Waits span many orders of magnitude: a decade is an equal step.

struct HtmlBar {
  std::string name{};
  double value = 0;   // Dark.
  double beyond = 0;  // Light, behind it; zero: none.
  std::string words{};
};

struct HtmlLine {
  std::string name{};
  std::vector<std::pair<double, double>> points{};
};

struct HtmlAxes {
  std::string x{};  // What it is, with its unit.
  std::string y{};
  double y_most = 100;
  Axis x_axis = Axis::kLinear;
};

class HtmlPage {
 public:
  // `scope`: what was simulated, in a sentence.
  HtmlPage(std::string_view title, std::string_view scope);

  void figures(const std::vector<std::pair<std::string, std::string>>& rows);
  void table(const std::vector<std::vector<std::string>>& rows);  // The first is the head.
  void heading(std::string_view text, std::string_view note = {});
  void bars(std::string_view label, const std::vector<HtmlBar>& bars, Axis axis);
  void lines(std::string_view label, const std::vector<HtmlLine>& lines, const HtmlAxes& axes);
  [[nodiscard]] std::string text() const { return text_ + "</html>\n"; }

 private:
  std::string text_;
};

[[nodiscard]] std::string html_number(double value, int digits = 0);

// How alike shares are: 1 when all are equal, 1/n when one has everything (Jain).
[[nodiscard]] double fairness_index(const std::vector<double>& shares);

}  // namespace tranche::sim
