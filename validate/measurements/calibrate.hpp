// Fits how fast workers and networks really are to some measurements, and predicts the others.

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
  double error = 0;  ///< relative, of ours
  /// As fast per worker as the mean of the model's rows that were calibrated on; none where it has none.
  std::optional<double> null_error;
};

/// Mean and largest relative error.
struct Errors {
  std::size_t rows = 0;
  double mean = 0;
  double worst = 0;
};

struct MeasurementsResult {
  std::map<std::string, double> compute_factors;   ///< by model: so many times as slow as its profile
  std::map<std::string, double> per_byte_factors;  ///< by network
  /// Names of models and networks whose factor is the least or most that is tried: what was measured is not
  /// that of the set-up.
  std::vector<std::string> at_limit;
  std::vector<PredictedRow> rows;
  Errors ours;    ///< of rows that were not calibrated on, of models that were
  Errors null;    ///< of the same rows
  Errors others;  ///< ours of the other rows, which the null predictor can say nothing about
};

/// The most that a factor may be, and one over the least.
double max_factor();

/// The compute of each model and the time per byte of each network are free; with only one row to say both,
/// that which is nearer to the files counts. Throws InputError where a name in a row, which `source` holds,
/// is not in the set-up, or where no row is left to predict.
MeasurementsResult calibrate_and_predict(const std::vector<Measurement>& rows,
                                         const std::vector<bool>& calibrate_on, const Setup& setup,
                                         const std::string& source);

}  // namespace validate
