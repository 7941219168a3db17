// Runs a plan on a worker group and brings back what every worker has recorded.

#pragma once

#include "validate/live/run.hpp"
#include "validate/live/worker_group.hpp"

namespace live {

/// EnvironmentError, naming worker and phase, where a worker is lost or a sum is wrong.
Record execute(WorkerGroup& worker_group, const RunSpec& spec, const Calibration& calibration,
               const Prediction& prediction, const WorkerGroupHooks& hooks = {});

}  // namespace live
