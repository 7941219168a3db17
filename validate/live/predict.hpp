// What the simulator says to a live run, before it begins.

#pragma once

#include <string>

#include "core/chrome_trace.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Groups are the schedule's, chosen on the calibrated network where it chooses. Throws InputError where the
/// network, the clock or the runtime cannot give what the wishes ask for.
Prediction predict(const RunSpec& spec, const Calibration& calibration);

/// What is frozen before the run: one JSON document.
std::string prediction_text(const RunSpec& spec, const Prediction& prediction);

}  // namespace live
