// Measures network, layers and compressors on the workers that will run, before they run: isolated
// collectives through the very code of the run, at sizes that no grouping of the tensors has.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "validate/live/crew.hpp"
#include "validate/live/run.hpp"

namespace live {

struct CalibrationWishes {
  std::uint32_t repetitions = 20;  ///< of each size; fewer of large ones, at least 5
  std::uint32_t warm_up = 3;
  std::uint32_t sizes = 9;  ///< of each collective
  std::int64_t least_bytes = 1000;
  std::int64_t most_bytes = 32'000'000;  ///< the last line of a curve is continued
  std::uint32_t layer_repetitions = 10;  ///< of real layers
  std::uint64_t seed = 1;
};

/// What all these plans need: collectives of their pipelines and compressors, the link, the layers of the
/// first, which must be the others', too.
Calibration calibrate(Crew& crew, const std::vector<Wishes>& all, const CalibrationWishes& wishes = {},
                      const CrewHooks& hooks = {});

/// Multiples of 4 bytes, growing by equal factors, of which no run of neighbouring tensors has as many.
std::vector<std::int64_t> calibration_sizes(const traces::Profile& profile, const CalibrationWishes& wishes);

/// As one JSON document, and back.
std::string calibration_text(const Calibration& calibration);
Calibration read_calibration(const models::Field& field);

}  // namespace live
