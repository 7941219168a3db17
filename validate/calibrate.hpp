// Fits how fast workers and networks really are to some measurements, and predicts the others.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validate/measurements.hpp"

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
  std::vector<PredictedRow> rows;
  Errors ours;  ///< of rows that were not calibrated on
  Errors null;  ///< of those of them that the null predictor can say something about
};

/// The compute of each model and the time per byte of each network are free; with only one row to say both,
/// that which is nearer to the files counts. Throws InputError where a name in a row, which `source` holds,
/// is not in the set-up, or where no row is left to predict.
MeasurementsResult calibrate_and_predict(const std::vector<Measurement>& rows,
                                         const std::vector<bool>& calibrate_on, const Setup& setup,
                                         const std::string& source);

}  // namespace validate
