// Builds a network of measured curves, with the quality of a straight-line fit for each.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/line_fit.hpp"
#include "profiler/traces/import.hpp"
#include "profiler/traces/protocol_switch.hpp"

namespace traces {
namespace {

template <typename Value>
std::vector<Value> kept(const std::vector<Value>& all, const std::vector<std::size_t>& points) {
  std::vector<Value> out;
  if (all.empty()) return out;
  for (const std::size_t i : points) out.push_back(all[i]);
  return out;
}

/// The values of the neighbours stand for the two points that continued() adds.
std::vector<double> continued_values(const std::vector<double>& values) {
  if (values.empty()) return {};
  std::vector<double> out = {values.front()};
  out.insert(out.end(), values.begin(), values.end());
  out.push_back(values.back());
  return out;
}

core::Measured continued_curve(const Series& series) {
  return {.collective = series.collective,
          .algorithm = series.algorithm,
          .workers = series.workers,
          .curve = core::CostCurve::through(continued(series.points)),
          .spread_us = continued_values(series.spread_us)};
}

/// The points of a curve with a steady end, and the jump between them.
struct Kept {
  std::vector<std::pair<double, double>> points;
  std::optional<ProtocolSwitch> jump;
};

Kept kept_of(const Series& series) {
  Kept out = {.points = kept(series.points, points_with_steady_end(series.points)), .jump = {}};
  if (!series.is_continued && series.algorithm.value_or("ring") == "ring")
    out.jump = protocol_switch(out.points, series.collective, series.workers);
  return out;
}

/// Adds the values of the neighbours at the ends of the jump.
void add_at_jump(std::vector<double>& values, const std::optional<ProtocolSwitch>& jump) {
  if (!jump || values.empty()) return;
  const auto next = values.begin() + static_cast<std::ptrdiff_t>(jump->after) + 1;
  values.insert(next, {*(next - 1), *next});
}

core::Measured steady_curve(const Series& series) {
  core::Measured out = {.collective = series.collective,
                        .algorithm = series.algorithm,
                        .workers = series.workers,
                        .curve = curve_through(series)};
  const std::vector<std::size_t> points = points_with_steady_end(series.points);
  out.spread_us = kept(series.spread_us, points);
  out.p99_us = kept(series.p99_us, points);
  const Kept with_jump = kept_of(series);
  add_at_jump(out.spread_us, with_jump.jump);
  add_at_jump(out.p99_us, with_jump.jump);
  return out;
}

core::Measured measured(const Series& series) {
  core::Measured out = series.is_continued ? continued_curve(series) : steady_curve(series);
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

std::vector<std::pair<double, double>> continued(std::vector<std::pair<double, double>> points) {
  // A size that took longer than a larger one included waiting, so it gets the time of the larger one.
  for (std::size_t i = points.size() - 1; i-- > 0;)
    points[i].second = std::min(points[i].second, points[i + 1].second);
  constexpr double kStartupUs = 10;
  constexpr double kBeyond = 1.25;
  const auto [min_bytes, min_bytes_us] = points.front();
  const auto [max_bytes, max_bytes_us] = points.back();
  const core::LineFit line = points.size() > 1 ? core::fit_line(points) : core::LineFit{};
  const double floor_us = std::min(kStartupUs, min_bytes_us / 2);
  constexpr double kGrows = 1e-6;  // more than rounding
  const bool rises = line.us_per_byte * (max_bytes - min_bytes) > kGrows * max_bytes_us &&
                     line.us(max_bytes) <= 2 * max_bytes_us;
  const double startup_us = rises ? std::clamp(line.startup_us, floor_us, min_bytes_us) : floor_us;
  // Nothing is sent before a message begins, so that a line through its time rises at most this much. Sizes
  // that lie close together give a slope of noise.
  const double max_us_per_byte = (max_bytes_us - floor_us) / max_bytes;
  const double us_per_byte = rises ? std::min(line.us_per_byte, max_us_per_byte) : max_us_per_byte;
  std::vector<std::pair<double, double>> out;
  if (min_bytes > 1) out.emplace_back(1, startup_us);
  out.insert(out.end(), points.begin(), points.end());
  out.emplace_back(kBeyond * max_bytes, max_bytes_us + us_per_byte * (kBeyond - 1) * max_bytes);
  return out;
}

namespace {

std::string rows_text(std::int64_t rows) { return rows == 1 ? "a row" : fmt::format("{} rows", rows); }

}  // namespace

std::vector<std::string> curve_warnings(const std::vector<Series>& series) {
  std::vector<std::string> out;
  for (const Series& each : series) {
    if (each.tables_left_out > 0)
      out.push_back(fmt::format(
          "{}: {} left out, of other collectives", core::printable(each.path),
          each.tables_left_out == 1 ? "a table is" : fmt::format("{} tables are", each.tables_left_out)));
    out.insert(out.end(), each.warnings.begin(), each.warnings.end());
    if (each.in_place_rows > 0)
      out.push_back(
          fmt::format("{}, {} on {} workers: the in-place time is taken for {}, whose out-of-place "
                      "time is far longer, as if it held first iterations",
                      core::printable(each.path), core::name(each.collective), each.workers,
                      rows_text(each.in_place_rows)));
    if (!each.is_continued) continue;
    const auto points = continued(each.points);
    const double slope = (points.back().second - points[points.size() - 2].second) /
                         (points.back().first - each.points.back().first);
    out.push_back(fmt::format(
        "{} on {} workers: {} were measured, of {:.0f} to {:.0f} bytes; ASSUMED for others: {:.3f} us for "
        "one byte, "
        "straight to the smallest, and {:.3f} us per MB beyond the largest",
        core::name(each.collective), each.workers,
        each.points.size() == 1 ? "collectives of one size" : fmt::format("{} sizes", each.points.size()),
        each.points.front().first, each.points.back().first, points.front().second, slope * 1e6));
  }
  return out;
}

core::CostCurve curve_through(const Series& series) {
  auto [points, jump] = kept_of(series);
  if (jump)
    points.insert(points.begin() + static_cast<std::ptrdiff_t>(jump->after) + 1,
                  {jump->before_jump, jump->after_jump});
  return core::CostCurve::through(points);
}

core::Network network_of(const Measurements& measurements, const std::string& name) {
  core::Network network = {.name = name,
                           .origin = {.kind = core::OriginKind::measured, .source = measurements.source}};
  for (const Series& series : measurements.series) {
    network.origin.source += fmt::format(
        "{} {} ({} workers{})", network.measured.empty() ? ":" : ",",
        std::filesystem::path(series.path).filename().string(), series.workers,
        series.in_place_rows == 0 ? ""
                                  : fmt::format(", in-place time of {}", rows_text(series.in_place_rows)));
    network.measured.push_back(measured(series));
  }
  if (std::any_of(measurements.series.begin(), measurements.series.end(),
                  [](const Series& series) { return series.is_continued; }))
    network.origin.source +=
        "; ASSUMED: the first and the last point of each curve, which continue a line through the others";
  std::vector<std::string> jumps;
  for (const Series& series : measurements.series)
    if (const auto jump = kept_of(series).jump)
      jumps.push_back(fmt::format("{} on {} workers at {:.0f} bytes", core::name(series.collective),
                                  series.workers, jump->after_jump.first));
  if (!jumps.empty())
    network.origin.source +=
        fmt::format("; ASSUMED: jumps where NCCL is expected to change protocol: {}", fmt::join(jumps, ", "));
  return network;
}

}  // namespace traces
