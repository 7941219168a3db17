// Calibration: fits numbers of models and networks to the measured rows of a few runs, chooses by
// cross-validation which numbers are fitted, and predicts the other rows.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "validate/measurements/calibration.hpp"

namespace validate {

struct CalibrateOptions {
  /// Quantities to fit besides compute and time per byte, each of which rows must determine for some model or
  /// network; absent: cross-validation chooses.
  std::optional<std::vector<FittedQuantity>> fit;
};

/// Rows with `calibrate_on` are fitted, the others are predicted. Throws InputError if a name in a row of
/// `source` is not in the set-up, or if the rows cannot tell two numbers apart that have to be fitted.
Calibration calibrate(const std::vector<Measurement>& rows, const std::vector<bool>& calibrate_on,
                      const Predictor& predictor, const std::string& source,
                      const CalibrateOptions& options = {});

}  // namespace validate
