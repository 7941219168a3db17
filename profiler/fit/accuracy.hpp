// How far a model of a curve is from measurements: in the mean, at worst, and where.

#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace fit {

using Points = std::vector<std::pair<double, double>>;  ///< [bytes, us], sizes growing
using Model = std::function<double(double bytes)>;

struct Residual {
  double bytes = 0;
  double us = 0;
  double predicted_us = 0;
  double error() const { return predicted_us / us - 1; }  ///< above 0: predicted too long
};

struct Accuracy {
  double mean_relative_error = 0;
  double max_relative_error = 0;
  std::vector<Residual> residuals;  ///< by growing size
  std::vector<Residual> worst(std::size_t count) const;
};

Accuracy accuracy(const Points& points, const Model& model);

/// Points to fit on and points to test on.
struct Split {
  Points fitted;
  Points tested;
};

/// Sizes that are powers of two are fitted on, the others tested.
Split by_powers_of_two(const Points& points);
/// Every other size is tested, the first and the last never: a test of what lies between.
Split by_turns(const Points& points);

}  // namespace fit
