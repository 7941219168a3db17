// Runs a plan on a worker group and returns the record of every worker.

#pragma once

#include "validate/live/run.hpp"
#include "validate/live/worker_group.hpp"

namespace live {

/// Throws EnvironmentError, naming worker and phase, if a worker is lost or a sum is wrong.
Record execute(WorkerGroup& worker_group, const RunSpec& spec, const Calibration& calibration,
               const Prediction& prediction, const WorkerGroupHooks& hooks = {});

}  // namespace live
