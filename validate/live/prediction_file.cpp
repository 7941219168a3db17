#include "validate/live/prediction_file.hpp"

#include "core/json_text.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/predict.hpp"

namespace live {

using nlohmann::ordered_json;

void PredictionFile::add(const std::string& group, const Calibration& calibration,
                         std::span<const RunSpec> all, std::span<const Prediction> predictions) {
  ordered_json plans = ordered_json::array();
  for (std::size_t i = 0; i < predictions.size(); ++i)
    plans.push_back(ordered_json::parse(prediction_text(all[i], predictions[i])));
  groups_.push_back({{"group", group},
                     {"calibration", ordered_json::parse(calibration_text(calibration))},
                     {"plans", std::move(plans)}});
}

std::string PredictionFile::text() const {
  return core::json_text({{"format", "fusewise.predictions"}, {"version", 1}, {"groups", groups_}});
}

}  // namespace live
