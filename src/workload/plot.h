// Plots as SVG text, coloured by the page's style sheet.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/core/time.h"

namespace weir::workload {

struct Axis {
  Nanos span{0};                            // from left to right
  std::function<std::string(double)> unit;  // a value as it reads on the left
  double full = 0;                          // a line across, if not 0
  double top = 0;                           // at least; fit() raises it

  void fit(std::span<const double> values);
};

struct Line {
  enum class Style : std::uint8_t { kLine, kArea };
  std::vector<double> values;  // of equal parts of the span
  Style style = Style::kLine;
};

// The first line is drawn strong, others dashed.
std::string line_plot(const Axis& axis, std::span<const Line> lines);
// Bars without a scale below them.
std::string bar_plot(const Axis& axis, std::span<const double> values);

// For HTML, in text and in attributes.
std::string escaped(std::string_view text);

}  // namespace weir::workload
