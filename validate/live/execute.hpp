// Runs a plan on a crew and brings back what every worker has recorded.

#pragma once

#include "validate/live/crew.hpp"
#include "validate/live/run.hpp"

namespace live {

/// WorldError, naming worker and phase, where a worker is lost or a sum is wrong.
Record execute(Crew& crew, const Wishes& wishes, const Calibration& calibration, const Prediction& prediction,
               const CrewHooks& hooks = {});

}  // namespace live
