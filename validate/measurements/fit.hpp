// One fit of given numbers to given rows, and what the rows say about each number.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <Eigen/Dense>

#include "validate/measurements/numbers.hpp"
#include "validate/measurements/predictor.hpp"

namespace validate {

/// The relative error of a row that is taken for granted: of the measurement and of the simulation together.
constexpr double kRowError = 0.02;

/// The position of each number, and their uncertainty.
struct FitResult {
  Eigen::VectorXd at;
  Eigen::MatrixXd covariance;  ///< of the positions, in units of what was uncertain beforehand
  Eigen::VectorXd learned;   ///< by number: 0, the rows say nothing; 1, nothing is left of what was uncertain
  Eigen::VectorXd response;  ///< by number: how far rows move, in errors, over what was uncertain
  Eigen::MatrixXd derivatives;  ///< of rows (in errors) by number, in units of what was uncertain
  double scale = 1;             ///< the rows' errors as multiples of kRowError
  double freedom = 1;           ///< degrees of freedom of `scale`
};

/// Fits numbers to some rows, starting from what is known or from `start`. With `rows` empty the result is
/// what is known.
class Fit {
 public:
  Fit(const Predictor& predictor, std::vector<Number> numbers, std::vector<std::size_t> rows);

  Eigen::VectorXd known() const;
  Eigen::VectorXd minimum(const Eigen::VectorXd& start) const;
  /// The best minimum of several starts: a network that is hidden completely gives no gradient.
  Eigen::VectorXd minimum() const;
  FitResult result(const Eigen::VectorXd& at) const;

  const std::vector<Number>& numbers() const { return numbers_; }
  const std::vector<std::size_t>& rows() const { return rows_; }
  Numbers at(const Eigen::VectorXd& position) const;
  /// Predicted microseconds of any rows.
  std::vector<double> iterations_us(const std::vector<std::size_t>& rows, const Eigen::VectorXd& at) const;
  /// Derivatives of the logarithms of these times, in units of what was uncertain.
  Eigen::MatrixXd derivatives(const std::vector<std::size_t>& rows, const Eigen::VectorXd& at) const;
  /// Logarithm of predicted over measured time.
  double log_error(std::size_t row, double iteration_us) const;

 private:
  std::vector<double> configurations_us(const Numbers& numbers, const std::vector<bool>& needed) const;
  std::vector<bool> configurations_of(const std::vector<std::size_t>& rows) const;
  bool concerns(std::size_t number, std::size_t configuration) const;

  const Predictor* predictor_;  // not a reference, so that fits can be assigned
  std::vector<Number> numbers_;
  std::vector<std::size_t> owners_;  // of numbers: index of the model or network
  std::vector<std::size_t> rows_;
};

}  // namespace validate
