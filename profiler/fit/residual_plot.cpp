#include "profiler/fit/residual_plot.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "core/svg.hpp"

namespace fit {
namespace {

using core::svg::add_text;
using core::svg::kColours;

constexpr double kWidth = 900;
constexpr double kHead = 70;
constexpr double kPanelHeight = 270;
constexpr double kLeft = 70;
constexpr double kRight = 880;
constexpr double kPlotTop = 34;
constexpr double kPlotBottom = 226;

/// Maps sizes, on a logarithmic axis, to x and errors in per cent to y; errors beyond the frame are drawn on
/// its edge.
struct Panel {
  double top;
  double min_bytes;
  double max_bytes;
  double max_percent;

  double x(double bytes) const {
    return kLeft + (kRight - kLeft) * std::log(bytes / min_bytes) / std::log(max_bytes / min_bytes);
  }
  double y(double percent) const {
    const double shown = std::clamp(percent, -max_percent, max_percent);
    return top + (kPlotTop + kPlotBottom) / 2 - (kPlotBottom - kPlotTop) / 2 * shown / max_percent;
  }
};

/// A curve passes through nearly all points: only sizes outside its fit are informative.
const std::optional<Accuracy>& shown(const ModelFit& model) {
  const bool is_tested = model.name == "curve" && model.out_of_sample;
  return model.in_sample && !is_tested ? model.in_sample : model.out_of_sample;
}

/// The largest error of all models except the single line, so that small errors remain visible.
double max_percent(const CurveFit& curve) {
  double max = 1;
  for (const ModelFit& model : curve.models)
    if (model.name != "line" && shown(model)) max = std::max(max, 110 * shown(model)->max_relative_error);
  return max;
}

Panel panel_of(const CurveFit& curve, double top) {
  const Points& points = curve.series.points;
  return {top, std::max(1.0, points.front().first), std::max(2.0, points.back().first), max_percent(curve)};
}

void draw_axes(std::string& svg, const Panel& panel) {
  for (const double tick : core::svg::linear_ticks(panel.max_percent))
    for (const double sign : {-1.0, 1.0}) {
      if (tick == 0 && sign < 0) continue;
      svg += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", tick == 0 ? "axis" : "grid",
                         kLeft, panel.y(sign * tick), kRight);
      add_text(svg, kLeft - 8, panel.y(sign * tick) + 4, "end", "",
               tick == 0 ? std::string("0 %") : fmt::format("{:+.4g} %", sign * tick));
    }
  const int first = static_cast<int>(std::ceil(std::log2(panel.min_bytes)));
  const int last = static_cast<int>(std::floor(std::log2(panel.max_bytes)));
  const int step = std::max(1, (last - first) / 8);
  for (int exponent = first; exponent <= last; exponent += step) {
    const double x = panel.x(std::exp2(exponent));
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v5\"/>\n", x, panel.top + kPlotBottom);
    add_text(svg, x, panel.top + kPlotBottom + 19, "middle", "", size_text(std::exp2(exponent)));
  }
}

void draw_points(std::string& svg, const Panel& panel, const ModelFit& model, std::string_view colour) {
  if (!shown(model)) return;
  for (const Residual& residual : shown(model)->residuals) {
    if (residual.bytes < panel.min_bytes) continue;  // no logarithm
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" fill=\"{}\"/>\n", panel.x(residual.bytes),
                       panel.y(100 * residual.error()), colour);
  }
}

void draw_borders(std::string& svg, const Panel& panel, const CurveFit& curve) {
  for (const Segment& segment : curve.segments)
    if (segment.from_bytes > panel.min_bytes)
      svg += fmt::format("<path class=\"border\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n",
                         panel.x(segment.from_bytes), panel.top + kPlotTop, panel.top + kPlotBottom);
}

void draw_legend(std::string& svg) {
  const std::string_view names[] = {"one line", "segments", "curve, on sizes it was not made from",
                                    "borders of segments"};
  double x = kLeft;
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (i < 3)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"48\" r=\"4\" fill=\"{}\"/>\n", x, kColours.at(i));
    else
      svg += fmt::format("<path class=\"border\" d=\"M{:.1f} 41v14\"/>\n", x);
    add_text(svg, x + 9, 52, "start", "", names[i]);
    constexpr double kLetter = 6.2;
    x += 34 + kLetter * static_cast<double>(names[i].size());
  }
}

}  // namespace

std::string residual_plot(const Report& report) {
  std::set<std::string> logs;
  for (const CurveFit& curve : report.curves) logs.insert(curve.series.path);
  const bool is_one = logs.size() <= 1;
  const double height = kHead + kPanelHeight * static_cast<double>(report.curves.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n<style>"
      ".title{{font-size:17px;font-weight:bold}}.head{{font-size:13px;font-weight:bold}}"
      ".grid{{stroke:#e4e4e4}}.axis{{stroke:#444}}.border{{stroke:#777;stroke-dasharray:3 3}}</style>\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n",
      kWidth, height);
  add_text(svg, 24, 28, "start", "title",
           fmt::format("{}: predicted over measured",
                       is_one ? report.network.name : fmt::format("{} logs", logs.size())));
  draw_legend(svg);
  for (std::size_t i = 0; i < report.curves.size(); ++i) {
    const CurveFit& curve = report.curves[i];
    const Panel panel = panel_of(curve, kHead + kPanelHeight * static_cast<double>(i));
    add_text(svg, kLeft, panel.top + kPlotTop - 10, "start", "head",
             fmt::format("{} on {} workers{}", core::name(curve.series.collective), curve.series.workers,
                         is_one ? "" : ", " + std::filesystem::path(curve.series.path).filename().string()));
    draw_axes(svg, panel);
    draw_borders(svg, panel, curve);
    for (std::size_t model = 0; model < curve.models.size(); ++model)
      draw_points(svg, panel, curve.models[model], kColours.at(model));
  }
  return svg + "</svg>\n";
}

}  // namespace fit
