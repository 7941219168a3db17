// Writes what a calibration found: as a table for people, and as JSON.

#pragma once

#include <string>

#include "validate/measurements/calibration.hpp"

namespace validate {

/// "time per byte of network '10gbe' 1.08 (1.03 to 1.13)"; times and startups with their unit.
std::string words(const FittedNumber& fitted, const Predictor& predictor);

std::string calibration_table(const Calibration& calibration, const Predictor& predictor,
                              std::size_t width = 0);

/// `fusewise.calibration`.
std::string calibration_json(const Calibration& calibration, const Predictor& predictor);

}  // namespace validate
