// What the simulator says to a live run, before it begins.

#pragma once

#include <string>

#include "traces/chrome_trace.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Groups are the schedule's, chosen on the calibrated network where it chooses. Throws InputError where the
/// network, the clock or the runtime cannot give what the wishes ask for.
Prediction predict(const Wishes& wishes, const Calibration& calibration);

/// What is frozen before the run: one JSON document.
std::string prediction_text(const Wishes& wishes, const Prediction& prediction);

}  // namespace live
