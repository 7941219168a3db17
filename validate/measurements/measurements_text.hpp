// Writes the predictions of measurements.

#pragma once

#include <string>

#include "validate/measurements/calibrate.hpp"

namespace validate {

std::string measurements_table(const MeasurementsResult& result);

/// `fusewise.predicted_measurements`.
std::string measurements_json(const MeasurementsResult& result);

}  // namespace validate
