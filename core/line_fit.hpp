// A straight line through measured times: what a message costs to start, and what each of its bytes costs.

#pragma once

#include <utility>
#include <vector>

namespace core {

/// t = startup_us + bytes * us_per_byte, and how well that describes the points it was fitted to.
struct LineFit {
  double startup_us = 0;   ///< may come out below 0 where times grow faster than linearly
  double us_per_byte = 0;  ///< likewise where they fall
  double r2 = 0;           ///< of the times themselves, unweighted: what others print as R^2
  double mean_relative_error = 0;
  double max_relative_error = 0;

  double us(double bytes) const { return startup_us + bytes * us_per_byte; }
};

/// Weighted least squares over points [bytes, microseconds], each with the weight 1/t^2: the sum of squared
/// *relative* errors is least, so that a few large messages do not decide what small ones cost.
/// Needs two points or more, strictly growing bytes from 0 on, and times above 0.
LineFit fit_line(const std::vector<std::pair<double, double>>& points);

}  // namespace core
