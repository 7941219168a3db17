#include "core/line_fit.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <Eigen/Dense>

namespace core {
namespace {

using Points = std::vector<std::pair<double, double>>;

/// Dividing a row of t = a + b x by its t weights it by 1/t^2 and leaves 1 on the right-hand side.
LineFit least_relative_squares(const Points& points) {
  const double scale = points.back().first;  // columns of similar magnitude keep the system well conditioned
  const auto rows = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixX2d system(rows, 2);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const auto& [bytes, us] = points[static_cast<std::size_t>(i)];
    system(i, 0) = 1 / us;
    system(i, 1) = bytes / scale / us;
  }
  const Eigen::Vector2d line = system.colPivHouseholderQr().solve(Eigen::VectorXd::Ones(rows));
  return {.startup_us = line(0), .us_per_byte = line(1) / scale};
}

double coefficient_of_determination(const Points& points, const LineFit& line) {
  double mean = 0;
  for (const auto& [bytes, us] : points) mean += us / static_cast<double>(points.size());
  double unexplained = 0;
  double total = 0;
  for (const auto& [bytes, us] : points) {
    unexplained += std::pow(us - line.us(bytes), 2);
    total += std::pow(us - mean, 2);
  }
  return total > 0 ? 1 - unexplained / total : 1;  // constant times have no variance to explain
}

}  // namespace

LineFit fit_line(const Points& points) {
  assert(points.size() >= 2);
  LineFit line = least_relative_squares(points);
  line.r2 = coefficient_of_determination(points, line);
  for (const auto& [bytes, us] : points) {
    const double error = std::abs(line.us(bytes) - us) / us;
    line.mean_relative_error += error / static_cast<double>(points.size());
    line.max_relative_error = std::max(line.max_relative_error, error);
  }
  return line;
}

}  // namespace core
