// Plain predictions that need no model: what a calibration has to beat.

#pragma once

#include <vector>

#include "validate/measurements/calibration.hpp"

namespace validate {

/// The errors of each plain predictor on rows that were not calibrated on, the best one first: the nearest
/// calibrated row of the model scaled by workers, its single worker scaled by workers, and the faster of
/// bulk-synchronous and WFBP on the same model, network and workers. Those that predict no row are left out.
std::vector<NullErrors> null_errors(const Predictor& predictor, const std::vector<CalibratedRow>& rows);

}  // namespace validate
