#include "profiler/fit/curve_fit.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"

namespace fit {
namespace {

std::vector<Row> rows_of(const Points& points) {
  std::vector<Row> rows;
  rows.reserve(points.size());
  for (const auto& [bytes, us] : points)
    rows.push_back({.bytes = bytes, .startups = 1, .sent = bytes, .us = us});
  return rows;
}

std::vector<Segment> segments_of(const Points& points, const SegmentOptions& options) {
  const std::vector<Row> rows = rows_of(points);
  return find_segments({&rows, 1}, noise(rows), options);
}

struct FittedModel {
  Model model;
  std::size_t pieces;
  bool goes_through_all = false;
};

FittedModel line(const traces::Series& series, const SegmentOptions& /*options*/) {
  const core::LineFit fitted = core::fit_line(series.points);
  return {[fitted](double bytes) { return fitted.us(bytes); }, 1};
}

FittedModel segments(const traces::Series& series, const SegmentOptions& options) {
  const std::vector<Segment> found = segments_of(series.points, options);
  return {[curve = curve_of(found)](double bytes) { return curve.us(bytes); }, found.size()};
}

/// Fits straight lines between points, as in a network file.
FittedModel curve(const traces::Series& series, const SegmentOptions& /*options*/) {
  const core::CostCurve curve = traces::curve_through(series);
  return {[curve](double bytes) { return curve.us(bytes); }, curve.points().size() - 1,
          traces::points_with_steady_end(series.points).size() == series.points.size()};
}

struct Kind {
  std::string_view name;
  FittedModel (*make)(const traces::Series& series, const SegmentOptions& options);
};
constexpr std::array<Kind, 3> kKinds = {{{"line", line}, {"segments", segments}, {"curve", curve}}};

}  // namespace

CurveFit fit_curve(const traces::Series& series, Test test, const SegmentOptions& options) {
  constexpr std::size_t kMin = 2;
  constexpr std::size_t kMax = 10'000;  // more would take longer than a second
  const Points& points = series.points;
  if (points.size() < kMin || points.size() > kMax)
    throw core::InputError(fmt::format("{}: /: expected {} to {} sizes of {} on {} workers, got {}",
                                       core::one_line(series.path), kMin, kMax, core::name(series.collective),
                                       series.workers, points.size()));
  const Split split = test == Test::powers_of_two ? by_powers_of_two(points) : by_turns(points);
  CurveFit out = {.series = series,
                  .noise = noise(rows_of(points)),
                  .line = core::fit_line(points),
                  .segments = segments_of(points, options),
                  .models = {},
                  .fitted_sizes = split.fitted.size(),
                  .tested_sizes = split.tested.size()};
  traces::Series fitted = series;
  fitted.points = split.fitted;
  const bool testable = split.fitted.size() >= kMin && !split.tested.empty();
  for (const Kind& kind : kKinds) {
    const FittedModel made = kind.make(series, options);
    ModelFit model = {
        .name = std::string(kind.name), .pieces = made.pieces, .in_sample = {}, .out_of_sample = {}};
    if (!made.goes_through_all) model.in_sample = accuracy(points, made.model);
    if (testable) model.out_of_sample = accuracy(split.tested, kind.make(fitted, options).model);
    out.models.push_back(std::move(model));
  }
  return out;
}

core::CostCurve curve_of(const std::vector<Segment>& segments) {
  std::vector<core::CostCurve::Segment> out;
  out.reserve(segments.size());
  for (const Segment& segment : segments)
    out.push_back({.from_bytes = segment.from_bytes,
                   .to_bytes = segment.to_bytes,
                   .startup_us = segment.line.alpha_us,
                   .us_per_byte = segment.line.beta_us_per_byte});
  return core::CostCurve::of_segments(out);
}

}  // namespace fit
