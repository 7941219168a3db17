#include "validate/measurements/null_predictors.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace validate {
namespace {

using Rows = std::vector<CalibratedRow>;
/// Samples per second of the row with this index, from the calibrated rows.
using NullPredictor = std::function<std::optional<double>(std::size_t row)>;

double per_worker(const CalibratedRow& row) {
  return row.measured_samples_per_s / static_cast<double>(row.measured.workers);
}

double distance(const CalibratedRow& a, const CalibratedRow& b) {
  return std::abs(
      std::log(static_cast<double>(a.measured.workers) / static_cast<double>(b.measured.workers)));
}

/// Scales the row nearest in workers, preferably of the same network and, among equally near ones, of the
/// same schedule.
std::optional<double> nearest(const Rows& rows, const CalibratedRow& row) {
  const CalibratedRow* best = nullptr;
  const auto rank = [&](const CalibratedRow& each) {
    return std::tuple(each.measured.network != row.measured.network, distance(each, row),
                      each.measured.schedule != row.measured.schedule);
  };
  for (const CalibratedRow& each : rows)
    if (each.is_calibrated_on && each.measured.model == row.measured.model &&
        (best == nullptr || rank(each) < rank(*best)))
      best = &each;
  if (best == nullptr) return std::nullopt;
  return per_worker(*best) * static_cast<double>(row.measured.workers);
}

std::optional<double> linear(const Rows& rows, const CalibratedRow& row) {
  for (const CalibratedRow& each : rows)
    if (each.is_calibrated_on && each.measured.model == row.measured.model && each.measured.workers == 1)
      return per_worker(each) * static_cast<double>(row.measured.workers);
  return std::nullopt;
}

bool is_plain(const planner::Schedule& schedule) {
  return schedule.pipeline->name == "after_backward" || schedule.pipeline->name == "wfbp";
}

std::optional<double> best_of_plain(const Predictor& predictor, const Rows& rows, const CalibratedRow& row) {
  std::optional<double> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Measurement& its = rows[i].measured;
    const bool is_there = rows[i].is_calibrated_on && its.model == row.measured.model &&
                          its.network == row.measured.network && its.workers == row.measured.workers;
    if (is_there && is_plain(predictor.configurations()[predictor.configuration_of(i)].schedule))
      out = std::max(out.value_or(0), rows[i].measured_samples_per_s);
  }
  return out;
}

}  // namespace

std::vector<NullErrors> null_errors(const Predictor& predictor, const std::vector<CalibratedRow>& rows) {
  const std::vector<std::pair<std::string, NullPredictor>> all = {
      {"nearest row of the model, scaled by workers", [&](std::size_t i) { return nearest(rows, rows[i]); }},
      {"linear scaling of one worker", [&](std::size_t i) { return linear(rows, rows[i]); }},
      {"faster of bulk-synchronous and WFBP",
       [&](std::size_t i) { return best_of_plain(predictor, rows, rows[i]); }}};
  std::vector<NullErrors> out;
  for (const auto& [name, predict] : all) {
    NullErrors next = {.name = name, .errors = {}, .ours = {}};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const CalibratedRow& row = rows[i];
      if (row.is_calibrated_on) continue;
      const std::optional<double> rate = predict(i);
      if (!rate) continue;
      next.errors.add(std::abs(*rate / row.measured_samples_per_s - 1), description(row.measured));
      next.ours.add(row.error, description(row.measured));
    }
    if (next.errors.rows > 0) out.push_back(std::move(next));
  }
  std::ranges::stable_sort(
      out, [](const NullErrors& a, const NullErrors& b) { return a.errors.mean < b.errors.mean; });
  return out;
}

}  // namespace validate
