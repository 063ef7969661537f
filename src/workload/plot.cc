#include "workload/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "workload/tally.h"

namespace weir::workload {
namespace {

constexpr double kWidth = 520;
constexpr double kHeight = 190;
constexpr double kLeft = 46;
constexpr double kRight = 8;
constexpr double kTop = 8;
constexpr double kBottom = 22;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

// 1, 2 or 5 times a power of ten, so that about four of them reach `top`.
double step_for(double top) {
  const double rough = top / 4;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

// Round times, four parts at most.
Nanos time_step(Nanos span) {
  using namespace std::chrono_literals;
  constexpr std::array<Nanos, 22> kSteps{1ms,  10ms, 100ms, 1s,    5s,    10s,  30s, 1min,
                                         2min, 5min, 10min, 15min, 30min, 1h,   2h,  4h,
                                         6h,   12h,  24h,   48h,   240h,  2400h};
  const auto fits = std::ranges::find_if(kSteps, [&](Nanos step) { return span / step <= 4; });
  return fits == kSteps.end() ? span : *fits;
}

std::string time_text(Nanos at, Nanos step) {
  using namespace std::chrono_literals;
  if (at == Nanos{0}) return "0";
  if (step >= 24h) return fmt::format("{} d", at / 24h);
  if (step >= 1h) return fmt::format("{} h", at / 1h);
  if (step >= 1min) return fmt::format("{} min", at / 1min);
  if (step >= 1s) return fmt::format("{} s", at / 1s);
  return fmt::format("{} ms", at / 1ms);
}

class Canvas {
 public:
  explicit Canvas(const Axis& axis) : axis_(axis), top_(rounded_top(axis.top)) {
    text_ = fmt::format(R"(<svg viewBox="0 0 {:.0f} {:.0f}" role="img">)", kWidth, kHeight);
    const double step = step_for(top_);
    for (int i = 0; i * step <= top_ * 1.0001; ++i) {
      const double value = i * step;
      across(value, "grid");
      text(kLeft - 6, y(value) + 4, "end", axis_.unit(value));
    }
    if (axis_.full > 0) across(axis_.full, "full");
  }

  double x(double part) const { return kLeft + part * kPlotWidth; }
  double y(double value) const { return kTop + kPlotHeight * (1 - std::min(value / top_, 1.0)); }

  void times() {
    const Nanos step = time_step(axis_.span);
    for (Nanos at{0}; at <= axis_.span; at += step) {
      const double part = static_cast<double>(at.count()) / static_cast<double>(axis_.span.count());
      // The last one ends with the plot.
      text(x(part), kHeight - 5,
           part > 0.97 ? "end"
           : part == 0 ? "start"
                       : "middle",
           time_text(at, step));
    }
  }
  void path(std::string_view style, std::string_view d) {
    fmt::format_to(std::back_inserter(text_), R"(<path class="{}" d="{}"/>)", style, d);
  }
  void bar(double from, double to, double value) {
    fmt::format_to(std::back_inserter(text_),
                   R"(<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">)"
                   R"(<title>{}</title></rect>)",
                   x(from), y(value), x(to) - x(from), y(0) - y(value), axis_.unit(value));
  }
  std::string end() { return std::move(text_) + "</svg>"; }

 private:
  static double rounded_top(double top) {
    if (!(top > 0)) return 1;
    const double step = step_for(top);
    return std::ceil(top / step * 0.9999) * step;
  }
  void across(double value, std::string_view style) {
    path(style, fmt::format("M{:.1f} {:.1f}H{:.1f}", kLeft, y(value), kWidth - kRight));
  }
  void text(double at_x, double at_y, std::string_view anchor, std::string_view value) {
    fmt::format_to(std::back_inserter(text_),
                   R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", at_x, at_y, anchor,
                   escaped(value));
  }

  const Axis& axis_;
  const double top_;
  std::string text_;
};

}  // namespace

void Axis::fit(std::span<const double> values) {
  for (double value : values) top = std::max(top, value);
}

std::string line_plot(const Axis& axis, std::span<const Line> lines) {
  Canvas canvas{axis};
  canvas.times();
  for (const Line& line : lines) {
    std::string d;
    const auto count = static_cast<double>(line.values.size());
    for (std::size_t i = 0; i < line.values.size(); ++i) {
      fmt::format_to(std::back_inserter(d), "{}{:.1f} {:.1f}", i == 0 ? "M" : "L",
                     canvas.x((static_cast<double>(i) + 0.5) / count), canvas.y(line.values[i]));
    }
    if (line.style == Line::Style::kArea) {
      canvas.path("fill", fmt::format("{}L{:.1f} {:.1f}H{:.1f}Z", d, canvas.x(1 - 0.5 / count),
                                      canvas.y(0), canvas.x(0.5 / count)));
    }
    canvas.path(&line == lines.data() ? "stroke" : "stroke thin dashed", d);
  }
  return canvas.end();
}

std::string bar_plot(const Axis& axis, std::span<const double> values) {
  Canvas canvas{axis};
  const auto count = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<double>(i);
    canvas.bar((at + 0.1) / count, (at + 0.9) / count, values[i]);
  }
  return canvas.end();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace weir::workload
