// Least squares within bounds: the method of Levenberg and Marquardt on the unknowns that are free to move.

#pragma once

#include <functional>

#include <Eigen/Dense>

namespace validate {

struct LeastSquares {
  Eigen::VectorXd lower;
  Eigen::VectorXd upper;
  std::function<Eigen::VectorXd(const Eigen::VectorXd& at)> residuals;
  /// The derivative of each residual (row) by each unknown (column); gets the residuals at that point, too.
  std::function<Eigen::MatrixXd(const Eigen::VectorXd& at, const Eigen::VectorXd& residuals)> jacobian;
};

struct Minimum {
  Eigen::VectorXd at;
  Eigen::VectorXd residuals;
  double cost = 0;  ///< sum of squared residuals
};

/// A local minimum from this start, which is moved into the bounds. Unknowns at a bound that the gradient
/// presses against are held there. Deterministic.
Minimum minimize(const LeastSquares& problem, Eigen::VectorXd start);

}  // namespace validate
