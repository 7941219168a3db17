#include "validate/measurements/measurements_text.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/json_text.hpp"

namespace validate {
namespace {

using nlohmann::ordered_json;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string line_of(std::string_view who, const Errors& errors) {
  if (errors.rows == 0) return "";
  return fmt::format("{}: mean error {}, worst {}, of {} row{} that were not calibrated on\n", who,
                     percent(errors.mean), percent(errors.worst), errors.rows, errors.rows == 1 ? "" : "s");
}

ordered_json json_of(const Errors& errors) {
  return {{"rows", errors.rows}, {"mean_error", errors.mean}, {"worst_error", errors.worst}};
}

ordered_json json_of(const std::map<std::string, double>& factors) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, factor] : factors) out[name] = factor;
  return out;
}

}  // namespace

std::string measurements_table(const MeasurementsResult& result) {
  std::size_t width = 5;
  std::vector<std::string> names;
  for (const PredictedRow& row : result.rows) {
    names.push_back(core::one_line(fmt::format("{}, {}, {} on {}", row.measured.model, row.measured.network,
                                               row.measured.schedule, row.measured.workers)));
    width = std::max(width, names.back().size());
  }
  std::string out = fmt::format("{:<{}}  {:>12}  {:>12}  {:>8}  {:>8}\n", "row", width, "measured/s",
                                "ours/s", "error", "null");
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const PredictedRow& row = result.rows[i];
    out += fmt::format("{:<{}}  {:>12.1f}  {:>12.1f}  {:>8}  {:>8}{}\n", names[i], width,
                       row.measured.samples_per_s, row.samples_per_s, percent(row.error),
                       row.null_error ? percent(*row.null_error) : "",
                       row.is_calibrated_on ? "  calibrated" : "");
  }
  out += '\n';
  for (const auto& [name, factor] : result.compute_factors)
    out +=
        fmt::format("{} computes {:.4g} times as long as its profile says\n", core::one_line(name), factor);
  for (const auto& [name, factor] : result.per_byte_factors)
    out += fmt::format("{} takes {:.4g} times as long per byte as its file says\n", core::one_line(name),
                       factor);
  for (const std::string& name : result.at_limit)
    out += fmt::format(
        "{} is at the limit of the search ({:.3g} to {:.3g} times): it is probably not what was measured\n",
        core::one_line(name), 1 / max_factor(), max_factor());
  return out + line_of("ours", result.ours) +
         line_of("null (as fast per worker as where calibrated)", result.null) +
         line_of("ours, of models without a calibrated row, so without a null", result.others);
}

std::string measurements_json(const MeasurementsResult& result) {
  ordered_json rows = ordered_json::array();
  for (const PredictedRow& row : result.rows) {
    rows.push_back({{"line", row.measured.line},
                    {"model", row.measured.model},
                    {"network", row.measured.network},
                    {"schedule", row.measured.schedule},
                    {"workers", row.measured.workers},
                    {"measured_samples_per_s", row.measured.samples_per_s},
                    {"predicted_samples_per_s", row.samples_per_s},
                    {"calibrated_on", row.is_calibrated_on},
                    {"relative_error", row.error}});
    if (row.null_error) rows.back()["null_relative_error"] = *row.null_error;
  }
  return core::json_text({{"format", "fusewise.predicted_measurements"},
                          {"version", 1},
                          {"compute_factors", json_of(result.compute_factors)},
                          {"per_byte_factors", json_of(result.per_byte_factors)},
                          {"at_limit", result.at_limit},
                          {"ours", json_of(result.ours)},
                          {"null", json_of(result.null)},
                          {"others", json_of(result.others)},
                          {"rows", std::move(rows)}});
}

}  // namespace validate
