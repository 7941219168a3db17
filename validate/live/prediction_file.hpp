// What was predicted, and on what calibration, as the file that is written before anything runs.

#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "validate/live/run.hpp"

namespace live {

/// `fusewise.predictions`: groups of plans that share a calibration.
class PredictionFile {
 public:
  /// `predictions` are those of `all`, one by one.
  void add(const std::string& group, const Calibration& calibration, std::span<const RunSpec> all,
           std::span<const Prediction> predictions);
  std::string text() const;

 private:
  nlohmann::ordered_json groups_ = nlohmann::ordered_json::array();
};

}  // namespace live
