// Fits one collective on one number of workers by three models: one straight line, segments, and straight
// lines between the measured points; each is judged on the sizes used for the fit and on others.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/line_fit.hpp"
#include "profiler/fit/accuracy.hpp"
#include "profiler/fit/segments.hpp"
#include "profiler/traces/import.hpp"

namespace fit {

enum class Test { by_turns, powers_of_two };

struct ModelFit {
  std::string name;  ///< line, segments or curve
  std::size_t pieces = 1;
  std::optional<Accuracy> in_sample;  ///< of the model of all sizes; none if it passes through all of them
  std::optional<Accuracy> out_of_sample;  ///< of the same model fitted to some sizes, on the others
};

struct CurveFit {
  traces::Series series;
  double noise = 0;  ///< relative, between neighbouring sizes
  core::LineFit line;
  std::vector<Segment> segments;
  std::vector<ModelFit> models;
  std::size_t fitted_sizes = 0;  ///< in the test
  std::size_t tested_sizes = 0;
};

/// Needs at least two sizes; otherwise throws InputError.
CurveFit fit_curve(const traces::Series& series, Test test, const SegmentOptions& options);

/// Converts to the format of a network file.
core::CostCurve curve_of(const std::vector<Segment>& segments);

}  // namespace fit
