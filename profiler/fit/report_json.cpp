// The report as JSON for programs (fusewise schema fit).

#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "profiler/fit/report.hpp"

namespace fit {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const std::optional<Accuracy>& accuracy) {
  constexpr std::size_t kShown = 5;
  ordered_json worst = ordered_json::array();
  for (const Residual& residual : accuracy->worst(kShown))
    worst.push_back(
        {{"bytes", residual.bytes}, {"us", residual.us}, {"predicted_us", residual.predicted_us}});
  ordered_json residuals = ordered_json::array();
  for (const Residual& residual : accuracy->residuals)
    residuals.push_back({residual.bytes, residual.us, residual.predicted_us});
  return {{"sizes", accuracy->residuals.size()},
          {"mean_relative_error", accuracy->mean_relative_error},
          {"max_relative_error", accuracy->max_relative_error},
          {"worst", std::move(worst)},
          {"residuals", std::move(residuals)}};
}

ordered_json to_json(const CurveFit& curve) {
  ordered_json models = ordered_json::array();
  for (const ModelFit& model : curve.models) {
    ordered_json item = {{"model", model.name}, {"pieces", model.pieces}};
    if (model.in_sample) item["in_sample"] = to_json(model.in_sample);
    if (model.out_of_sample) item["out_of_sample"] = to_json(model.out_of_sample);
    models.push_back(std::move(item));
  }
  ordered_json segments = ordered_json::array();
  for (const Segment& segment : curve.segments)
    segments.push_back({{"from_bytes", segment.from_bytes},
                        {"to_bytes", segment.to_bytes},
                        {"startup_us", segment.line.alpha_us},
                        {"us_per_byte", segment.line.beta_us_per_byte}});
  ordered_json out = {{"collective", core::name(curve.series.collective)}};
  if (curve.series.algorithm) out["algorithm"] = *curve.series.algorithm;
  out.update({{"log", curve.series.path},
              {"workers", curve.series.workers},
              {"sizes", curve.series.points.size()},
              {"noise", curve.noise},
              {"line",
               {{"startup_us", curve.line.startup_us},
                {"us_per_byte", curve.line.us_per_byte},
                {"r2", curve.line.r2}}},
              {"segments", std::move(segments)},
              {"fitted_sizes", curve.fitted_sizes},
              {"tested_sizes", curve.tested_sizes},
              {"models", std::move(models)}});
  return out;
}

ordered_json to_json(const LinkFit& link) {
  ordered_json ranges = ordered_json::array();
  for (const Range& range : link.ranges)
    ranges.push_back({{"from_bytes", range.from_bytes},
                      {"to_bytes", range.to_bytes},
                      {"algorithm", range.algorithm},
                      {"alpha_us", range.link.alpha_us},
                      {"beta_us_per_byte", range.link.beta_us_per_byte}});
  ordered_json out = {{"collective", core::name(link.collective)},
                      {"workers", link.workers},
                      {"algorithm", link.algorithm},
                      {"alpha_us", link.link.line.alpha_us},
                      {"beta_us_per_byte", link.link.line.beta_us_per_byte}};
  if (link.link.error) {
    out["alpha_error_us"] = link.link.error->alpha_us;
    out["beta_error_us_per_byte"] = link.link.error->beta_us_per_byte;
  }
  out.update({{"mean_relative_error", link.mean_relative_error},
              {"max_relative_error", link.max_relative_error},
              {"ranges", std::move(ranges)},
              {"ranges_mean_relative_error", link.ranges_mean_relative_error},
              {"ranges_max_relative_error", link.ranges_max_relative_error}});
  if (link.left_out) {
    out["leave_one_out"] = {{"mean_relative_error", link.left_out->mean_relative_error},
                            {"max_relative_error", link.left_out->max_relative_error},
                            {"min_ratio", link.left_out->min},
                            {"max_ratio", link.left_out->max}};
    if (link.left_out->parts < link.workers.size()) out["leave_one_out"]["parts"] = link.left_out->parts;
  }
  return out;
}

ordered_json to_json(const Prediction& prediction) {
  ordered_json times = ordered_json::array();
  for (const PredictedTime& time : prediction.times) {
    ordered_json item = {{"bytes", time.bytes}, {"us", time.us}};
    if (time.between_us) {
      item["min_us"] = time.between_us->first;
      item["max_us"] = time.between_us->second;
    }
    times.push_back(std::move(item));
  }
  return {{"collective", core::name(prediction.collective)},
          {"workers", prediction.workers},
          {"times", std::move(times)}};
}

template <typename Items>
ordered_json list_of(const Items& items) {
  ordered_json out = ordered_json::array();
  for (const auto& item : items) out.push_back(to_json(item));
  return out;
}

}  // namespace

std::string report_json(const Report& report) {
  return core::json_text({{"format", "fusewise.fit"},
                          {"version", 1},
                          {"name", report.network.name},
                          {"source", report.network.origin.source},
                          {"warnings", report.warnings},
                          {"curves", list_of(report.curves)},
                          {"links", list_of(report.links)},
                          {"predictions", list_of(report.predictions)}});
}

}  // namespace fit
