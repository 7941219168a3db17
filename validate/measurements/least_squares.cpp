#include "validate/measurements/least_squares.hpp"

#include <utility>

namespace validate {
namespace {

Eigen::VectorXd clamped(const LeastSquares& problem, const Eigen::VectorXd& at) {
  return at.cwiseMax(problem.lower).cwiseMin(problem.upper);
}

Minimum point(const LeastSquares& problem, Eigen::VectorXd at) {
  Minimum out;
  out.at = std::move(at);
  out.residuals = problem.residuals(out.at);
  out.cost = out.residuals.squaredNorm();
  return out;
}

/// Removes the unknowns that stand at a bound and would be moved beyond it from the normal equations.
void hold_at_bounds(const LeastSquares& problem, const Eigen::VectorXd& at, Eigen::MatrixXd& a,
                    Eigen::VectorXd& g) {
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    const bool is_held = (at(i) <= problem.lower(i) && g(i) > 0) || (at(i) >= problem.upper(i) && g(i) < 0);
    if (!is_held) continue;
    a.row(i).setZero();
    a.col(i).setZero();
    a(i, i) = 1;
    g(i) = 0;
  }
}

}  // namespace

Minimum minimize(const LeastSquares& problem, Eigen::VectorXd start) {
  constexpr int kMaxSteps = 30;
  constexpr double kEnough = 1e-5;  // relative decrease of the cost below which the search ends
  constexpr double kMaxDamping = 1e6;
  double damping = 1e-3;
  Minimum best = point(problem, clamped(problem, start));
  if (best.at.size() == 0) return best;
  for (int step = 0; step < kMaxSteps; ++step) {
    const Eigen::MatrixXd j = problem.jacobian(best.at, best.residuals);
    Eigen::MatrixXd a = j.transpose() * j;
    Eigen::VectorXd g = j.transpose() * best.residuals;
    hold_at_bounds(problem, best.at, a, g);
    bool is_better = false;
    bool is_done = false;
    for (; !is_better && damping < kMaxDamping; damping *= is_better ? 1 : 10) {
      Eigen::MatrixXd damped = a;
      damped.diagonal() *= 1 + damping;
      Minimum next = point(problem, clamped(problem, best.at - damped.ldlt().solve(g)));
      if (!(next.cost < best.cost)) continue;
      is_better = true;
      is_done = best.cost - next.cost < kEnough * best.cost;
      best = std::move(next);
    }
    if (!is_better || is_done) break;
    damping /= 10;
  }
  return best;
}

}  // namespace validate
