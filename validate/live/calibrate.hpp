// Measures network, layers and compressors on the workers that will run, before they run: isolated
// collectives through the very code of the run, at sizes that no grouping of the tensors has.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "validate/live/run.hpp"
#include "validate/live/worker_group.hpp"

namespace live {

struct CalibrationOptions {
  std::uint32_t repetitions = 20;  ///< of each size; fewer of large ones, at least 5
  std::uint32_t warm_up = 3;
  std::uint32_t sizes = 9;  ///< of each collective
  std::int64_t min_bytes = 1000;
  std::int64_t max_bytes = 32'000'000;   ///< the last line of a curve is continued
  std::uint32_t layer_repetitions = 10;  ///< of real layers
  std::uint64_t seed = 1;
};

/// What all these plans need: collectives of their pipelines and compressors, the link, the layers of the
/// first, which must be the others', too.
Calibration calibrate(WorkerGroup& worker_group, const std::vector<RunSpec>& all,
                      const CalibrationOptions& spec = {}, const WorkerGroupHooks& hooks = {});

/// Multiples of 4 bytes, growing by equal factors, of which no run of neighbouring tensors has as many.
std::vector<std::int64_t> calibration_sizes(const core::Profile& profile, const CalibrationOptions& spec);

/// As one JSON document, and back.
std::string calibration_text(const Calibration& calibration);
Calibration read_calibration(const core::Field& field);

}  // namespace live
