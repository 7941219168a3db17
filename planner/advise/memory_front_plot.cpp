#include "planner/advise/memory_front_plot.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/svg.hpp"

namespace planner {
namespace {

using core::svg::add_text;
using core::svg::linear_ticks;

constexpr double kWidth = 760;
constexpr double kHeight = 460;
constexpr double kLeft = 84;
constexpr double kRight = 724;
constexpr double kTop = 66;
constexpr double kBottom = 398;
constexpr double kBytesPerGb = 1e9;

double ms(double us) { return us / 1e3; }
double gb(const ShardedPlan& plan) { return static_cast<double>(plan.peak_bytes) / kBytesPerGb; }

/// Both axes begin at 0, so that distances are as large as they look.
struct Axes {
  double max_gb;
  double max_ms;

  double x(double value) const { return kLeft + (kRight - kLeft) * value / max_gb; }
  double y(double value) const { return kBottom - (kBottom - kTop) * value / max_ms; }
};

void draw_axes(std::string& svg, const Axes& axes) {
  for (const double tick : linear_ticks(axes.max_ms)) {
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kLeft, axes.y(tick), kRight);
    add_text(svg, kLeft - 8, axes.y(tick) + 4, "end", "", fmt::format("{:.6g} ms", tick));
  }
  for (const double tick : linear_ticks(axes.max_gb)) {
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v5\"/>\n", axes.x(tick), kBottom);
    add_text(svg, axes.x(tick), kBottom + 19, "middle", "", fmt::format("{:.6g}", tick));
  }
  svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kLeft, kBottom, kRight);
  add_text(svg, (kLeft + kRight) / 2, kBottom + 42, "middle", "", "peak memory of a worker, GB");
}

/// A plan is the fastest known one up to the memory of the next.
std::string time_steps(const MemoryFront& front, const Axes& axes) {
  std::string out;
  for (const ShardedPlan& plan : front.plans) {
    const double y = axes.y(ms(plan.iteration_us));
    out += out.empty() ? fmt::format("M{:.1f} {:.1f}", axes.x(gb(plan)), y)
                       : fmt::format("H{:.1f}V{:.1f}", axes.x(gb(plan)), y);
  }
  return out + fmt::format("H{:.1f}", kRight);
}

/// A bound holds for all plans of no more memory, so between two plans it is that of the one with more.
std::string bound_steps(const MemoryFront& front, const Axes& axes) {
  if (front.is_exact) return time_steps(front, axes);
  std::string out;
  for (const ShardedPlan& plan : front.plans) {
    const double y = axes.y(ms(plan.lower_bound_us));
    out += out.empty() ? fmt::format("M{:.1f} {:.1f}", axes.x(gb(plan)), y)
                       : fmt::format("V{:.1f}H{:.1f}", y, axes.x(gb(plan)));
  }
  return out;
}

}  // namespace

std::string memory_front_plot(const MemoryFront& front) {
  constexpr double kMargin = 1.06;
  Axes axes = {.max_gb = gb(front.plans.back()) * kMargin, .max_ms = 0};
  for (const ShardedPlan& plan : front.plans)
    axes.max_ms = std::max(axes.max_ms, ms(plan.iteration_us) * kMargin);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n<style>.title{{font-size:17px;"
      "font-weight:bold}}.grid{{stroke:#d9d9d9}}.axis{{stroke:#444}}.line{{fill:none;stroke-width:2}}"
      "</style>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      kWidth, kHeight);
  add_text(svg, 24, 34, "start", "title",
           fmt::format("fastest sharded plans by memory, {} workers", front.workers));
  add_text(svg, 24, 54, "start", "", "time of an iteration; dashed: no plan within that memory takes less");
  draw_axes(svg, axes);
  svg += fmt::format(
      "<path class=\"line\" stroke=\"{}\" stroke-dasharray=\"4 4\" d=\"{}\"><title>no plan is faster"
      "</title></path>\n",
      core::svg::kColours[1], bound_steps(front, axes));
  svg += fmt::format("<path class=\"line\" stroke=\"{}\" d=\"{}\"/>\n", core::svg::kColours[0],
                     time_steps(front, axes));
  for (std::size_t i = 0; i < front.plans.size(); ++i) {
    const ShardedPlan& plan = front.plans[i];
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"><title>{:.3f} GB, {:.3f} ms, {} groups{}"
        "</title></circle>\n",
        axes.x(gb(plan)), axes.y(ms(plan.iteration_us)), i == front.chosen ? 6 : 3.5, core::svg::kColours[0],
        gb(plan), ms(plan.iteration_us), plan.groups.size(), i == front.chosen ? ", chosen" : "");
  }
  return svg + "</svg>\n";
}

}  // namespace planner
