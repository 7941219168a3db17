// Fits the actual speed of workers and networks to some measurements, and predicts the others.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validate/measurements/measurements.hpp"

namespace validate {

struct PredictedRow {
  Measurement measured;
  bool is_calibrated_on = false;
  double samples_per_s = 0;
  double error = 0;  ///< relative error of our prediction
  /// The null predictor assumes the mean speed per worker of the model's calibration rows; none without such
  /// rows.
  std::optional<double> null_error;
};

/// Mean and largest relative error.
struct Errors {
  std::size_t rows = 0;
  double mean = 0;
  double worst = 0;
};

struct MeasurementsResult {
  std::map<std::string, double> compute_factors;   ///< indexed by model: factor on the times of its profile
  std::map<std::string, double> per_byte_factors;  ///< indexed by network
  /// Models and networks whose factor is at a limit of the search: the measurement does not fit the set-up.
  std::vector<std::string> at_limit;
  std::vector<PredictedRow> rows;
  Errors ours;    ///< of rows outside the calibration, of calibrated models
  Errors null;    ///< of the same rows
  Errors others;  ///< our errors of the remaining rows, which the null predictor cannot predict
};

/// The largest factor; its inverse is the smallest.
double max_factor();

/// The compute factor of each model and the time-per-byte factor of each network are free; if a single row
/// determines both, the solution nearest to the files counts. Throws InputError if a name in a row of
/// `source` is not in the set-up, or if no row is left to predict.
MeasurementsResult calibrate_and_predict(const std::vector<Measurement>& rows,
                                         const std::vector<bool>& calibrate_on, const Setup& setup,
                                         const std::string& source);

}  // namespace validate
