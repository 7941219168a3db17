// Builds a network of measured curves, with the quality of a straight-line fit for each.

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/line_fit.hpp"
#include "profiler/traces/import.hpp"

namespace traces {
namespace {

template <typename Value>
std::vector<Value> kept(const std::vector<Value>& all, const std::vector<std::size_t>& points) {
  std::vector<Value> out;
  if (all.empty()) return out;
  for (const std::size_t i : points) out.push_back(all[i]);
  return out;
}

core::Measured measured(const Series& series) {
  core::Measured out = {.collective = series.collective,
                        .algorithm = series.algorithm,
                        .workers = series.workers,
                        .curve = curve_through(series.points)};
  const std::vector<std::size_t> points = points_with_steady_end(series.points);
  out.spread_us = kept(series.spread_us, points);
  out.p99_us = kept(series.p99_us, points);
  if (series.points.size() < 2) return out;
  const core::LineFit line = core::fit_line(series.points);
  out.fit = core::Fit{.r2 = line.r2,
                      .mean_relative_error = line.mean_relative_error,
                      .max_relative_error = line.max_relative_error};
  return out;
}

}  // namespace

std::vector<std::size_t> points_with_steady_end(const std::vector<std::pair<double, double>>& points) {
  constexpr double kQuarterBefore = 0.75;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i].first <= kQuarterBefore * points.back().first || i + 1 == points.size()) out.push_back(i);
  return out;
}

core::CostCurve curve_through(const std::vector<std::pair<double, double>>& points) {
  return core::CostCurve::through(kept(points, points_with_steady_end(points)));
}

core::Network network_of(const Measurements& measurements, const std::string& name) {
  core::Network network = {.name = name,
                           .origin = {.kind = core::OriginKind::measured, .source = measurements.source}};
  for (const Series& series : measurements.series) {
    network.origin.source +=
        fmt::format("{} {} ({} workers)", network.measured.empty() ? ":" : ",",
                    std::filesystem::path(series.path).filename().string(), series.workers);
    network.measured.push_back(measured(series));
  }
  return network;
}

}  // namespace traces
