// The error of a fitted curve against measurements: mean, maximum, and its location.

#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace fit {

using Points = std::vector<std::pair<double, double>>;  ///< [bytes, us], sizes increasing
using Model = std::function<double(double bytes)>;

struct Residual {
  double bytes = 0;
  double us = 0;
  double predicted_us = 0;
  double error() const { return predicted_us / us - 1; }  ///< positive: predicted too long
};

struct Accuracy {
  double mean_relative_error = 0;
  double max_relative_error = 0;
  std::vector<Residual> residuals;  ///< sorted by size
  std::vector<Residual> worst(std::size_t count) const;
};

Accuracy accuracy(const Points& points, const Model& model);

/// Points for the fit and points for the test.
struct Split {
  Points fitted;
  Points tested;
};

/// Sizes that are powers of two are for the fit, the others for the test.
Split by_powers_of_two(const Points& points);
/// Every other size is for the test, except the first and the last: it tests interpolation.
Split by_turns(const Points& points);

}  // namespace fit
