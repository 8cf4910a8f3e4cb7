// SPDX-License-Identifier: Apache-2.0
#include "sim/html_page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace tranche::sim {
namespace {

constexpr double kWidth = 640, kLeft = 150, kHeight = 200, kDecades = 7;
constexpr std::array kColours{"#2456a6", "#c2571a", "#2c7a4b", "#7a3b8f", "#8a6d00", "#555555"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

double log_position(double seconds) {
  return std::log10(std::max(seconds, 1.0)) / kDecades;
}

std::string text_at(double x, double y, std::string_view words, const char* anchor = "start") {
  return "<text x='" + html_number(x) + "' y='" + html_number(y) + "' text-anchor='" + anchor + "'>" +
         escaped(words) + "</text>";
}

std::string rectangle(const char* colour, double y, double height, double width) {
  return std::string("<rect class='") + colour + "' x='" + html_number(kLeft) + "' y='" + html_number(y) +
         "' height='" + html_number(height) + "' width='" + html_number(std::max(width, 0.0)) + "'/>";
}

std::string svg_head(std::string_view label, double height) {
  return "<svg role='img' aria-label='" + escaped(label) + "' viewBox='0 0 " +
         html_number(kLeft + kWidth + 160) + " " + html_number(height) + "'>";
}

// Lines of a scale, with what they stand for.
std::string log_grid() {
  std::string svg;
  for (int decade = 0; decade <= static_cast<int>(kDecades); ++decade) {
    const double x = kLeft + kWidth * decade / kDecades;
    svg += "<line x1='" + html_number(x) + "' x2='" + html_number(x) + "' y1='10' y2='" +
           html_number(10 + kHeight) + "'/>";
    svg +=
        text_at(x, kHeight + 28, "1" + std::string(static_cast<std::size_t>(decade), '0') + " s", "middle");
  }
  return svg;
}

// A one, two or five with zeros: five to ten of them over the scale.
double round_step(double range) {
  const double decade = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double step : {5 * decade, 2 * decade})
    if (range / step >= 5) return step;
  return decade;
}

std::string linear_grid(double from, double to) {
  std::string svg;
  const double step = round_step(to - from);
  for (double value = std::ceil(from / step) * step; value <= to + step / 1000; value += step) {
    const double x = kLeft + kWidth * (value - from) / (to - from);
    svg += "<line x1='" + html_number(x) + "' x2='" + html_number(x) + "' y1='10' y2='" +
           html_number(10 + kHeight) + "'/>";
    const int digits = step < 1 ? static_cast<int>(std::ceil(-std::log10(step))) : 0;
    svg += text_at(x, kHeight + 28, html_number(value, digits), "middle");
  }
  return svg;
}

}  // namespace

std::string html_number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

double fairness_index(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1;
}

HtmlPage::HtmlPage(std::string_view title, std::string_view scope)
    : text_(
          "<!doctype html><html lang='en'><meta charset='utf-8'>"
          "<meta name='viewport' content='width=device-width'><title>" +
          escaped(title) +
          " (simulated)</title><style>"
          "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}"
          "svg{width:100%;font-size:12px}.light{fill:#b8cbe6}.dark{fill:#2456a6}line{stroke:#ddd}"
          "polyline{fill:none;stroke-width:2}th{text-align:left;padding-right:2em;font-weight:500}"
          "td,th+th{text-align:right;padding:0 0 0 1em}td{white-space:nowrap}"
          ".sim{background:#fff3cd;padding:.4em .8em;display:inline-block}</style><h1>" +
          escaped(title) + "</h1><p class='sim'>Simulated: " + escaped(scope) + " Nothing ran.</p>") {}

void HtmlPage::figures(const std::vector<std::pair<std::string, std::string>>& rows) {
  text_ += "<table>";
  for (const auto& [name, value] : rows)
    text_ += "<tr><th>" + escaped(name) + "</th><td>" + escaped(value) + "</td></tr>";
  text_ += "</table>";
}

void HtmlPage::table(const std::vector<std::vector<std::string>>& rows) {
  text_ += "<table>";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text_ += "<tr>";
    for (std::size_t cell = 0; cell < rows[i].size(); ++cell) {
      const char* tag = i == 0 || cell == 0 ? "th" : "td";
      text_ += std::string("<") + tag + ">" + escaped(rows[i][cell]) + "</" + tag + ">";
    }
    text_ += "</tr>";
  }
  text_ += "</table>";
}

void HtmlPage::heading(std::string_view text, std::string_view note) {
  text_ += "<h2>" + escaped(text) + "</h2>";
  if (!note.empty()) text_ += "<p>" + escaped(note) + "</p>";
}

void HtmlPage::bars(std::string_view label, const std::vector<HtmlBar>& bars, Axis axis) {
  double most = 1e-9;
  for (const HtmlBar& bar : bars) most = std::max({most, bar.value, bar.beyond});
  const auto length = [&](double value) {
    return (axis == Axis::kLogSeconds ? log_position(value) : value / most) * kWidth;
  };
  std::string svg = svg_head(label, 24 * static_cast<double>(bars.size()) + 10);
  double y = 6;
  for (const HtmlBar& bar : bars) {
    svg += text_at(kLeft - 8, y + 13, bar.name, "end");
    if (bar.beyond > 0) svg += rectangle("light", y, 16, length(bar.beyond));
    svg += rectangle("dark", bar.beyond > 0 ? y + 4 : y, bar.beyond > 0 ? 8 : 16, length(bar.value));
    svg += text_at(kLeft + length(std::max(bar.value, bar.beyond)) + 6, y + 13, bar.words);
    y += 24;
  }
  text_ += svg + "</svg>";
}

void HtmlPage::lines(std::string_view label, const std::vector<HtmlLine>& lines, const HtmlAxes& axes) {
  double from = 1e300, to = -1e300;
  for (const HtmlLine& line : lines)
    for (const auto& [x, y] : line.points) {
      from = std::min(from, x);
      to = std::max(to, x);
    }
  if (from >= to) to = from + 1;
  const bool logarithmic = axes.x_axis == Axis::kLogSeconds;
  std::string svg = svg_head(label, kHeight + 50) + (logarithmic ? log_grid() : linear_grid(from, to));
  svg += text_at(kLeft - 8, 18, html_number(axes.y_most) + " " + axes.y, "end");
  svg += text_at(kLeft - 8, 10 + kHeight, "0", "end");
  svg += text_at(kLeft + kWidth, kHeight + 44, axes.x, "end");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string colour = kColours[i % kColours.size()];
    svg += "<polyline stroke='" + colour + "' points='";
    for (const auto& [x, y] : lines[i].points) {
      const double part = logarithmic ? log_position(x) : (x - from) / (to - from);
      svg += html_number(kLeft + part * kWidth, 1) + "," +
             html_number(10 + kHeight * (1 - std::clamp(y / axes.y_most, 0.0, 1.0)), 1) + " ";
    }
    svg += "'/><text fill='" + colour + "' x='" + html_number(kLeft + kWidth + 8) + "' y='" +
           html_number(24 + 18 * static_cast<double>(i)) + "'>" + escaped(lines[i].name) + "</text>";
  }
  text_ += svg + "</svg>";
}

}  // namespace tranche::sim
