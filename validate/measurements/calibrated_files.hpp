// The profiles and networks that a calibration yields, for `simulate` and `plan`.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "validate/measurements/calibration.hpp"

namespace validate {

struct CalibratedFile {
  std::string name;  ///< "resnet50-on-10gbe.profile.json"
  std::string text;
};

/// A network for each network of the rows that were calibrated on, and a profile for each pair of model and
/// network that rows name. A fixed startup is part of no link, so a network is written as curves on the rows'
/// numbers of workers, on the powers of two up to twice the largest, and on `more_workers`; other numbers
/// have no cost where a fixed startup was fitted. `source` names the rows in the files' origin.
std::vector<CalibratedFile> calibrated_files(const Calibration& calibration, const Predictor& predictor,
                                             const std::vector<std::int64_t>& more_workers,
                                             const std::string& source);

}  // namespace validate
