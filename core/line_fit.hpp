// Fits a straight line to measured times: the startup cost of a message and the cost per byte.

#pragma once

#include <utility>
#include <vector>

namespace core {

/// t = startup_us + bytes * us_per_byte, and how well that describes the fitted points.
struct LineFit {
  double startup_us = 0;   ///< negative if times grow faster than linearly
  double us_per_byte = 0;  ///< negative if times fall
  double r2 = 0;           ///< of the unweighted times, as usually reported
  double mean_relative_error = 0;
  double max_relative_error = 0;

  double us(double bytes) const { return startup_us + bytes * us_per_byte; }
};

/// Weighted least squares over points [bytes, microseconds] with the weights 1/t^2: minimizes the sum of
/// squared *relative* errors, so that a few large messages do not dominate the small ones. Needs at least two
/// points with strictly increasing bytes >= 0 and times > 0.
LineFit fit_line(const std::vector<std::pair<double, double>>& points);

}  // namespace core
