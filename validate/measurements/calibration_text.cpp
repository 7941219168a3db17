#include "validate/measurements/calibration_text.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/json_text.hpp"
#include "core/text_table.hpp"

namespace validate {
namespace {

using core::percent;
using nlohmann::ordered_json;

const core::Network* network_of(const Number& number, const Predictor& predictor) {
  if (is_of_model(number.quantity)) return nullptr;
  const auto& names = predictor.networks();
  const auto at = std::ranges::find(names, number.owner) - names.begin();
  return &predictor.network(static_cast<std::size_t>(at));
}

std::string with_unit(FittedQuantity quantity, double value) {
  switch (quantity) {
    case FittedQuantity::compute_factor:
    case FittedQuantity::per_byte:
    case FittedQuantity::startup_per_hop: return fmt::format("{:.4g} x", value);
    case FittedQuantity::fixed_startup: return fmt::format("{:.4g} us", value);
    default: return fmt::format("{:.3f}", value);
  }
}

std::string quantities_text(const std::vector<FittedQuantity>& quantities) {
  std::vector<std::string_view> names;
  for (const FittedQuantity each : quantities) names.push_back(name(each));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string errors_text(const Errors& errors) {
  return fmt::format("mean {}, worst {} ({}), of {} row{}", percent(errors.mean), percent(errors.worst),
                     core::one_line(errors.worst_row), errors.rows, errors.rows == 1 ? "" : "s");
}

std::string rows_text(const Calibration& calibration, std::size_t width) {
  std::vector<std::vector<std::string>> table = {
      {"row", "measured/s", "ours/s", "95 % interval", "error", ""}};
  for (const CalibratedRow& row : calibration.rows)
    table.push_back(
        {core::one_line(description(row.measured)), fmt::format("{:.1f}", row.measured_samples_per_s),
         fmt::format("{:.1f}", row.samples_per_s),
         row.samples_per_s_interval ? fmt::format("{:.1f} to {:.1f}", row.samples_per_s_interval->low,
                                                  row.samples_per_s_interval->high)
                                    : "",
         percent(row.error), row.is_calibrated_on ? "calibrated" : ""});
  return core::aligned(std::move(table), {0, 5}, width);
}

std::string numbers_text(const Calibration& calibration, const Predictor& predictor, std::size_t width) {
  std::vector<std::vector<std::string>> table = {{"fitted number", "value", "95 % interval", ""}};
  for (const FittedNumber& each : calibration.fitted)
    table.push_back({core::one_line(description(each.number, network_of(each.number, predictor))),
                     with_unit(each.number.quantity, each.value),
                     fmt::format("{} to {}", with_unit(each.number.quantity, each.interval.low),
                                 with_unit(each.number.quantity, each.interval.high)),
                     each.at_bound ? (each.number.bounded_by_line_rate ? "at the line rate"
                                                                       : "at the limit of the search")
                                   : ""});
  return core::aligned(std::move(table), {0, 3}, width);
}

std::string held_text(const Calibration& calibration, const Predictor& predictor) {
  std::string out;
  for (const HeldNumber& each : calibration.held)
    out += core::one_line(fmt::format(
               "not determined: {}: {}; it stays close to what the file says, and what helps is {}",
               description(each.number, network_of(each.number, predictor)),
               each.confused_with.empty() ? std::string("the rows do not depend on it")
                                          : fmt::format("the rows cannot tell it from the {}",
                                                        fmt::join(each.confused_with, " and the ")),
               each.remedy)) +
           '\n';
  return out;
}

std::string tried_text(const Calibration& calibration) {
  std::string out;
  for (const Tried& each : calibration.tried)
    out += fmt::format("{} {}: {}\n", each.is_chosen ? "chosen" : "tried ", quantities_text(each.quantities),
                       each.error > 0 ? percent(each.error) + " mean error, cross-validated"
                                      : std::string("too few rows for cross-validation"));
  return out;
}

ordered_json json_of(const Errors& errors) {
  ordered_json out = {{"rows", errors.rows}, {"mean_error", errors.mean}, {"worst_error", errors.worst}};
  if (errors.rows > 0) out["worst_row"] = errors.worst_row;
  return out;
}

ordered_json json_of(const Number& number, const Predictor& predictor) {
  ordered_json out = {{"quantity", name(number.quantity)},
                      {is_of_model(number.quantity) ? "model" : "network", number.owner}};
  const core::Network* network = network_of(number, predictor);
  if (network != nullptr && !network->levels.empty() &&
      number.quantity != FittedQuantity::communication_slowdown &&
      number.quantity != FittedQuantity::compute_slowdown)
    out["level"] = network->levels[number.level].name;
  return out;
}

ordered_json json_of(const CalibratedRow& row) {
  ordered_json out = {{"line", row.measured.line},
                      {"model", row.measured.model},
                      {"network", row.measured.network},
                      {"schedule", row.measured.schedule},
                      {"workers", row.measured.workers},
                      {"measured_samples_per_s", row.measured_samples_per_s},
                      {"predicted_samples_per_s", row.samples_per_s},
                      {"predicted_iteration_us", row.iteration_us}};
  if (row.samples_per_s_interval)
    out["interval_samples_per_s"] = {row.samples_per_s_interval->low, row.samples_per_s_interval->high};
  out["calibrated_on"] = row.is_calibrated_on;
  out["relative_error"] = row.error;
  return out;
}

}  // namespace

std::string words(const FittedNumber& fitted, const Predictor& predictor) {
  return fmt::format("{} {} ({} to {})", description(fitted.number, network_of(fitted.number, predictor)),
                     with_unit(fitted.number.quantity, fitted.value),
                     with_unit(fitted.number.quantity, fitted.interval.low),
                     with_unit(fitted.number.quantity, fitted.interval.high));
}

std::string calibration_table(const Calibration& calibration, const Predictor& predictor, std::size_t width) {
  std::string out = rows_text(calibration, width) + '\n' + numbers_text(calibration, predictor, width) +
                    '\n' + held_text(calibration, predictor) + tried_text(calibration);
  for (const LeftOut& each : calibration.cross_validation)
    out += fmt::format("each {} left out in turn: {}\n", each.what, errors_text(each.errors));
  if (calibration.widening > 1)
    out += fmt::format(
        "intervals are {:.1f} times as wide as the fit alone states, as rows left out are that far off\n",
        calibration.widening);
  if (calibration.ours.rows > 0)
    out += fmt::format("ours, rows that were not calibrated on: {}\n", errors_text(calibration.ours));
  if (calibration.others.rows > 0)
    out += fmt::format("ours, models or networks without a calibrated row: {}\n",
                       errors_text(calibration.others));
  for (const NullErrors& each : calibration.nulls)
    out += fmt::format("null, {}: {}; ours on these: mean {}, worst {}\n", each.name,
                       errors_text(each.errors), percent(each.ours.mean), percent(each.ours.worst));
  return out;
}

std::string calibration_json(const Calibration& calibration, const Predictor& predictor) {
  ordered_json fitted = ordered_json::array();
  for (const FittedNumber& each : calibration.fitted) {
    fitted.push_back(json_of(each.number, predictor));
    fitted.back()["value"] = each.value;
    fitted.back()["interval"] = {each.interval.low, each.interval.high};
    fitted.back()["at_bound"] = each.at_bound;
  }
  ordered_json held = ordered_json::array();
  for (const HeldNumber& each : calibration.held) {
    held.push_back(json_of(each.number, predictor));
    held.back()["confused_with"] = each.confused_with;
    held.back()["remedy"] = each.remedy;
  }
  ordered_json tried = ordered_json::array();
  for (const Tried& each : calibration.tried) {
    ordered_json quantities = ordered_json::array();
    for (const FittedQuantity quantity : each.quantities) quantities.push_back(name(quantity));
    tried.push_back(
        {{"quantities", std::move(quantities)}, {"mean_error", each.error}, {"chosen", each.is_chosen}});
  }
  ordered_json left_out = ordered_json::array();
  for (const LeftOut& each : calibration.cross_validation)
    left_out.push_back({{"left_out", each.what}, {"errors", json_of(each.errors)}});
  ordered_json nulls = ordered_json::array();
  for (const NullErrors& each : calibration.nulls)
    nulls.push_back({{"name", each.name}, {"errors", json_of(each.errors)}, {"ours", json_of(each.ours)}});
  ordered_json rows = ordered_json::array();
  for (const CalibratedRow& row : calibration.rows) rows.push_back(json_of(row));
  return core::json_text({{"format", "fusewise.calibration"},
                          {"version", 1},
                          {"fitted", std::move(fitted)},
                          {"not_determined", std::move(held)},
                          {"tried", std::move(tried)},
                          {"cross_validation", std::move(left_out)},
                          {"widening", calibration.widening},
                          {"ours", json_of(calibration.ours)},
                          {"others", json_of(calibration.others)},
                          {"null", std::move(nulls)},
                          {"rows", std::move(rows)}});
}

}  // namespace validate
