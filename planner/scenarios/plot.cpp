#include "planner/scenarios/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/svg.hpp"

namespace scenarios {
namespace {

constexpr double kWidth = 1180;
constexpr double kHeight = 520;
constexpr double kTop = 84;
constexpr double kBottom = 452;

using core::svg::add_text;
using core::svg::escaped;
using core::svg::kColours;  // each colour is used solid, then dashed
using core::svg::linear_ticks;

struct Point {
  double workers;
  double value;
};

struct Line {
  std::string name;
  std::vector<Point> points;
};

/// Maps workers, on a logarithmic axis, to x, and values, linear or logarithmic, to y.
struct Panel {
  std::string title;
  std::string unit;
  double left;
  double right;
  double min_workers;
  double max_workers;
  double min;
  double max;
  bool is_logarithmic;

  double x(double workers) const {
    if (max_workers == min_workers) return (left + right) / 2;
    return left + (right - left) * std::log(workers / min_workers) / std::log(max_workers / min_workers);
  }
  double y(double value) const {
    const double share =
        is_logarithmic ? std::log(value / min) / std::log(max / min) : (value - min) / (max - min);
    return kBottom - (kBottom - kTop) * share;
  }
};

/// One line per schedule, in the order of the results: the n-th schedule of every number of workers, whatever
/// its name.
std::vector<Line> lines(const Results& results, double planner::Metrics::*number, double scale) {
  std::vector<Line> out;
  std::size_t nth = 0;
  for (std::size_t i = 0; i < results.entries.size(); ++i) {
    const Entry& entry = results.entries[i];
    const bool next_count = i > 0 && entry.metrics.workers != results.entries[i - 1].metrics.workers;
    nth = i == 0 || next_count ? 0 : nth + 1;
    if (nth == out.size()) out.push_back({.name = entry.schedule, .points = {}});
    out[nth].points.push_back({static_cast<double>(entry.metrics.workers), entry.metrics.*number * scale});
  }
  for (Line& line : out)
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const Point& a, const Point& b) { return a.workers < b.workers; });
  return out;
}

std::vector<double> worker_counts(const Results& results) {
  std::vector<double> out;
  for (const Entry& entry : results.entries) out.push_back(static_cast<double>(entry.metrics.workers));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// Round numbers in the range: powers of ten, with enough digits between them to have three ticks.
std::vector<double> logarithmic_ticks(double min, double max) {
  const std::vector<std::vector<double>> choices = {
      {1}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8}, {1,   1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2,
                                                   2.2, 2.5, 2.8, 3,   3.5, 4,   4.5, 5,   5.5,
                                                   6,   6.5, 7,   7.5, 8,   8.5, 9,   9.5}};
  std::vector<double> out;
  for (const std::vector<double>& digits : choices) {
    out.clear();
    const int first = static_cast<int>(std::floor(std::log10(min)));
    const int last = static_cast<int>(std::floor(std::log10(max)));
    for (int exponent = first; exponent <= last; ++exponent)
      for (const double digit : digits) {
        const double tick = digit * std::pow(10, exponent);
        if (tick >= min && tick <= max) out.push_back(tick);
      }
    constexpr std::size_t kEnough = 3;
    if (out.size() >= kEnough) return out;
  }
  if (out.empty()) out = {min, max};
  return out;
}

void draw_axes(std::string& svg, const Panel& panel, const std::vector<double>& workers) {
  add_text(svg, panel.left, kTop - 16, "start", "head", panel.title);
  const std::vector<double> ticks =
      panel.is_logarithmic ? logarithmic_ticks(panel.min, panel.max) : linear_ticks(panel.max);
  for (const double tick : ticks) {
    const double y = panel.y(tick);
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", panel.left, y, panel.right);
    add_text(svg, panel.left - 8, y + 4, "end", "", fmt::format("{:.6g}{}", tick, panel.unit));
  }
  double last = -100;
  for (const double count : workers) {
    const double x = panel.x(count);
    constexpr double kLabelWidth = 30;
    if (x - last < kLabelWidth) continue;
    last = x;
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v5\"/>\n", x, kBottom);
    add_text(svg, x, kBottom + 19, "middle", "", fmt::format("{:.0f}", count));
  }
  svg +=
      fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", panel.left, kBottom, panel.right);
  add_text(svg, (panel.left + panel.right) / 2, kBottom + 40, "middle", "", "workers");
}

/// The place of a line among colours and dashes: the exact plan has the first colour in every plot.
std::size_t colour_of(const std::vector<Line>& all, std::size_t line) {
  const auto ours =
      std::find_if(all.begin(), all.end(), [](const Line& each) { return each.name == "fusewise"; });
  const auto place = static_cast<std::size_t>(ours - all.begin());
  if (ours == all.end() || line > place) return line;
  return line == place ? 0 : line + 1;
}

std::string stroke(std::size_t place) {
  constexpr std::array<std::string_view, 3> kDashes = {"", " stroke-dasharray=\"6 3\"",
                                                       " stroke-dasharray=\"2 3\""};
  return fmt::format("stroke=\"{}\"{}", kColours[place % kColours.size()],
                     kDashes[place / kColours.size() % kDashes.size()]);
}

void draw_line(std::string& svg, const Panel& panel, const Line& line, std::size_t index) {
  std::string path;
  for (const Point& point : line.points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", panel.x(point.workers),
                        panel.y(point.value));
  svg += fmt::format("<path class=\"{}\" {} d=\"{}\"/>\n",
                     line.name.rfind("fusewise", 0) == 0 ? "line ours" : "line", stroke(index), path);
  for (const Point& point : line.points)
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}, {:.0f} workers: "
        "{:.4g}{}</title></circle>\n",
        panel.x(point.workers), panel.y(point.value), kColours[index % kColours.size()], escaped(line.name),
        point.workers, point.value, panel.unit);
}

/// Shortens the name to fit beside the plot.
std::string shortened(const std::string& name) {
  constexpr std::size_t kFits = 27;
  return name.size() <= kFits ? name : name.substr(0, kFits - 2) + "..";
}

/// Draws names at the ends of the lines, moved apart if they would overlap.
void draw_names(std::string& svg, const Panel& panel, const std::vector<Line>& all) {
  struct Label {
    std::size_t line;
    double end;  ///< y of the line's end
    double y;    ///< y of the name
  };
  std::vector<Label> labels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double y = panel.y(all[i].points.back().value);
    labels.push_back({i, y, y});
  }
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.end < b.end; });
  constexpr double kSpacing = 16;
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + kSpacing);
  double below = kBottom;
  for (std::size_t i = labels.size(); i-- > 0;) {
    labels[i].y = std::min(labels[i].y, below);
    below = labels[i].y - kSpacing;
  }
  for (const Label& label : labels) {
    const double end = panel.x(all[label.line].points.back().workers);
    svg += fmt::format("<path class=\"leader\" {} d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}h8\"/>\n",
                       stroke(colour_of(all, label.line)), end + 5, label.end, panel.right + 18, label.y);
    add_text(svg, panel.right + 30, label.y + 4, "start", "", shortened(all[label.line].name));
  }
}

void draw_panel(std::string& svg, const Panel& panel, const Results& results, const std::vector<Line>& all,
                bool with_names) {
  draw_axes(svg, panel, worker_counts(results));
  for (std::size_t i = 0; i < all.size(); ++i) draw_line(svg, panel, all[i], colour_of(all, i));
  if (with_names) draw_names(svg, panel, all);
}

double extreme(const std::vector<Line>& all, bool max) {
  double out = all.front().points.front().value;
  for (const Line& line : all)
    for (const Point& point : line.points)
      out = max ? std::max(out, point.value) : std::min(out, point.value);
  return out;
}

}  // namespace

std::string scaling_plot(const Results& results) {
  const std::vector<double> workers = worker_counts(results);
  const std::vector<Line> times = lines(results, &planner::Metrics::iteration_us, 1e-3);
  const std::vector<Line> efficiencies = lines(results, &planner::Metrics::scaling_efficiency, 100);
  constexpr double kMargin = 1.15;
  const Panel time = {"iteration time",
                      " ms",
                      78,
                      470,
                      workers.front(),
                      workers.back(),
                      extreme(times, false) / kMargin,
                      extreme(times, true) * kMargin,
                      true};
  const Panel efficiency = {"scaling efficiency",
                            " %",
                            570,
                            962,
                            workers.front(),
                            workers.back(),
                            0,
                            std::max(100.0, extreme(efficiencies, true)),
                            false};

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n<style>"
      ".title{{font-size:17px;font-weight:bold}}.head{{font-size:13px;font-weight:bold}}"
      ".grid{{stroke:#d9d9d9}}.axis{{stroke:#444}}.line{{fill:none;stroke-width:1.6}}.ours{{stroke-width:3.2}"
      "}"
      ".leader{{fill:none;stroke-width:1.5}}</style>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      kWidth, kHeight);
  add_text(svg, 24, 34, "start", "title", results.scenario.empty() ? "scaling" : results.scenario);
  draw_panel(svg, time, results, times, false);
  draw_panel(svg, efficiency, results, efficiencies, true);
  return svg + "</svg>\n";
}

}  // namespace scenarios
