// A network made of measured curves, each with how well a straight line describes it.

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "traces/fit.hpp"
#include "traces/import.hpp"

namespace traces {
namespace {

/// A curve's last line is continued for ever, and the line between two neighbouring points can have any
/// slope, a falling one too: the noise of a microsecond between sizes 4 KiB apart. So that the last line
/// spans a quarter of the sizes, the points inside that quarter are left out.
std::vector<std::pair<double, double>> with_steady_end(std::vector<std::pair<double, double>> points) {
  const std::pair<double, double> last = points.back();
  constexpr double kQuarterBefore = 0.75;
  const auto first_dropped = std::find_if(points.begin(), points.end(), [&](const auto& point) {
    return point.first > kQuarterBefore * last.first;
  });
  points.erase(first_dropped, points.end());
  points.push_back(last);
  return points;
}

Measured measured(const Series& series) {
  Measured out = {.collective = series.collective,
                  .algorithm = series.algorithm,
                  .workers = series.workers,
                  .curve = CostCurve::through(with_steady_end(series.points))};
  if (series.points.size() < 2) return out;
  const LineFit line = fit_line(series.points);
  out.fit = Fit{.r2 = line.r2,
                .mean_relative_error = line.mean_relative_error,
                .max_relative_error = line.max_relative_error};
  return out;
}

}  // namespace

Network network_of(const Measurements& measurements, const std::string& name) {
  Network network = {.name = name, .origin = {.kind = OriginKind::measured, .source = measurements.source}};
  for (const Series& series : measurements.series) {
    network.origin.source +=
        fmt::format("{} {} ({} workers)", network.measured.empty() ? ":" : ",",
                    std::filesystem::path(series.path).filename().string(), series.workers);
    network.measured.push_back(measured(series));
  }
  return network;
}

}  // namespace traces
