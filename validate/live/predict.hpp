// Predicts a live run before it begins.

#pragma once

#include <string>

#include "core/chrome_trace.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Uses the schedule's groups, chosen on the calibrated network if the schedule chooses. Throws InputError if
/// the network, the clock or the runtime cannot support the spec.
Prediction predict(const RunSpec& spec, const Calibration& calibration);

/// The prediction as one JSON document, written before the run.
std::string prediction_text(const RunSpec& spec, const Prediction& prediction);

}  // namespace live
