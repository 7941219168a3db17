// The file of predictions and their calibrations, written before any run.

#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "validate/live/run.hpp"

namespace live {

/// `fusewise.predictions`: groups of plans that share a calibration.
class PredictionFile {
 public:
  /// `predictions` correspond one to one to `all`.
  void add(const std::string& group, const Calibration& calibration, std::span<const RunSpec> all,
           std::span<const Prediction> predictions);
  std::string text() const;

 private:
  nlohmann::ordered_json groups_ = nlohmann::ordered_json::array();
};

}  // namespace live
