#include "profiler/fit/rows.hpp"

#include <algorithm>
#include <cmath>

#include <Eigen/Dense>

namespace fit {
namespace {

/// Returns the best coefficient of one column without the other.
double alone(const Eigen::VectorXd& column) {
  const double squares = column.squaredNorm();
  return squares > 0 ? column.sum() / squares : 0;
}

}  // namespace

Solution solve(const std::vector<Row>& rows, bool physical) {
  double scale = 0;  // columns of similar magnitude keep the system well conditioned
  for (const Row& row : rows) scale = std::max(scale, row.sent);
  if (scale == 0) scale = 1;
  const auto count = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixX2d system(count, 2);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    system(i, 0) = row.startups / row.us;
    system(i, 1) = row.sent / scale / row.us;
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(count);
  const Eigen::ColPivHouseholderQR<Eigen::MatrixX2d> decomposed(system);
  Eigen::Vector2d line = decomposed.solve(ones);
  const bool determined = decomposed.rank() == 2;
  if (!determined || line(1) < 0) line << alone(system.col(0)), 0;
  if (physical && line(0) < 0) line << 0, alone(system.col(1));

  Solution out = {.line = {.alpha_us = line(0), .beta_us_per_byte = line(1) / scale}, .error = {}};
  if (determined && count > 2) {
    const double variance = (ones - system * line).squaredNorm() / static_cast<double>(count - 2);
    const Eigen::Matrix2d covariance = variance * (system.transpose() * system).inverse();
    out.error = Line{.alpha_us = std::sqrt(std::max(0.0, covariance(0, 0))),
                     .beta_us_per_byte = std::sqrt(std::max(0.0, covariance(1, 1))) / scale};
  }
  return out;
}

}  // namespace fit
