// Measures network, layers and compressors on the workers of a later run: isolated collectives with the same
// code as the run, at sizes that no grouping of the tensors has.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "validate/live/run.hpp"
#include "validate/live/worker_group.hpp"

namespace live {

struct CalibrationOptions {
  std::uint32_t repetitions = 20;  ///< of each size; fewer for large sizes, at least 5
  std::uint32_t warm_up = 3;
  std::uint32_t sizes = 9;  ///< per collective
  std::int64_t min_bytes = 1000;
  std::int64_t max_bytes = 32'000'000;   ///< the curve is extrapolated beyond it
  std::uint32_t layer_repetitions = 10;  ///< of each real layer
  std::uint64_t seed = 1;
};

/// Measures what all these plans require: the collectives of their pipelines and compressors, the link, and
/// the layers of the first plan, which all plans must share.
Calibration calibrate(WorkerGroup& worker_group, const std::vector<RunSpec>& all,
                      const CalibrationOptions& spec = {}, const WorkerGroupHooks& hooks = {});

/// Multiples of 4 bytes in a geometric progression; no range of neighbouring tensors has any of these sizes.
std::vector<std::int64_t> calibration_sizes(const core::Profile& profile, const CalibrationOptions& spec);

/// Serializes a calibration as one JSON document, and parses it.
std::string calibration_text(const Calibration& calibration);
Calibration read_calibration(const core::Field& field);

}  // namespace live
