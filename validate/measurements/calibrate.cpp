#include "validate/measurements/calibrate.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <Eigen/Dense>

#include "core/errors.hpp"
#include "core/scaled.hpp"
#include "planner/run/predict.hpp"

namespace validate {
namespace {

/// Logarithms of the factors.
struct Factors {
  std::map<std::string, double> models;
  std::map<std::string, double> networks;
};

/// Weight of the regularization: a factor of e costs as much as a few errors of 1 %. That decides where
/// measurements say nothing, and is negligible elsewhere.
constexpr double kPull = 1e-4;
constexpr double kMaxLogarithm = 4;

class Predictor {
 public:
  Predictor(const std::vector<Measurement>& rows, const Setup& setup, const std::string& source)
      : rows_(rows), setup_(setup), source_(source) {
    schedules_.reserve(rows.size());
    for (const Measurement& row : rows) schedules_.push_back(schedule(row));
  }

  double samples_per_s(std::size_t i, const Factors& factors) const {
    const Measurement& row = rows_[i];
    const core::Profile profile =
        core::scaled(known(setup_.models, row.model, row, "model"), factor(factors.models, row.model));
    const core::Network network = core::scaled(known(setup_.networks, row.network, row, "network"), 1,
                                               factor(factors.networks, row.network));
    const planner::Schedule& schedule = schedules_[i];
    try {
      const planner::Setting setting(profile, network, row.workers,
                                     schedule.all_reduce ? *schedule.all_reduce : setup_.all_reduce, {});
      return planner::run(setting, schedule).metrics.throughput_samples_per_s;
    } catch (const core::Unsupported& problem) {
      expected(row, problem.expected(), problem.got());
    }
  }

 private:
  static double factor(const std::map<std::string, double>& logarithms, const std::string& name) {
    const auto found = logarithms.find(name);
    return found == logarithms.end() ? 1 : std::exp(found->second);
  }

  [[noreturn]] void expected(const Measurement& row, std::string_view what, std::string_view got) const {
    throw core::InputError(fmt::format("{}:{}: expected {}, got {}", source_, row.line, what, got));
  }

  template <typename Value>
  const Value& known(const std::map<std::string, Value>& all, const std::string& name, const Measurement& row,
                     std::string_view what) const {
    const auto found = all.find(name);
    if (found != all.end()) return found->second;
    std::vector<std::string_view> names;
    names.reserve(all.size());
    for (const auto& [each, value] : all) names.push_back(each);
    expected(row, fmt::format("a {} of the set-up, one of {}", what, fmt::join(names, ", ")),
             fmt::format("'{}'{}", core::printable(name), core::suggestion(name, names)));
  }

  planner::Schedule schedule(const Measurement& row) const {
    const auto found = setup_.schedules.find(row.schedule);
    if (found != setup_.schedules.end()) return found->second;
    for (const planner::Preset& preset : planner::presets())
      if (preset.name == row.schedule && !preset.needs_compressor)
        return planner::preset_schedule(preset.name);
    expected(row, "a schedule of the set-up, or a named one that needs no more",
             fmt::format("'{}'", core::printable(row.schedule)));
  }

  const std::vector<Measurement>& rows_;
  const Setup& setup_;
  const std::string& source_;
  std::vector<planner::Schedule> schedules_;
};

double relative(double ours, double measured) { return std::abs(ours - measured) / measured; }

/// Returns pointers to the logarithms as one vector, models first.
std::vector<double*> unknowns(Factors& factors) {
  std::vector<double*> out;
  for (auto* group : {&factors.models, &factors.networks})
    for (auto& [name, logarithm] : *group) out.push_back(&logarithm);
  return out;
}

/// Least squares by Levenberg and Marquardt over the logarithms of the errors.
class Fit {
 public:
  Fit(const std::vector<Measurement>& rows, const std::vector<bool>& on, const Predictor& predictor)
      : rows_(rows), predictor_(predictor) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (on[i]) on_.push_back(i);
  }

  double cost(Factors& factors) const {
    double sum = 0;
    for (const double* each : unknowns(factors)) sum += kPull * *each * *each;
    for (const std::size_t i : on_) sum += residual(i, factors) * residual(i, factors);
    return sum;
  }

  Factors from(Factors factors) const {
    constexpr int kSteps = 40;
    constexpr double kLittle = 1e-9;
    constexpr double kStubborn = 1e9;
    double damping = 1e-3;
    double min = cost(factors);
    for (int i = 0; i < kSteps && damping < kStubborn; ++i) {
      Factors next = step(factors, damping);
      const double reached = cost(next);
      if (reached >= min) {
        damping *= 10;
        continue;
      }
      const bool done = min - reached < kLittle * min;
      factors = std::move(next);
      min = reached;
      damping /= 10;
      if (done) break;
    }
    return factors;
  }

 private:
  double residual(std::size_t i, const Factors& factors) const {
    return std::log(predictor_.samples_per_s(i, factors) / rows_[i].samples_per_s);
  }

  Factors step(Factors factors, double damping) const {
    constexpr double kDifference = 1e-4;
    const std::vector<double*> x = unknowns(factors);
    const auto n = static_cast<Eigen::Index>(x.size());
    Eigen::MatrixXd a = Eigen::MatrixXd::Zero(n, n);
    Eigen::VectorXd g = Eigen::VectorXd::Zero(n);
    for (Eigen::Index j = 0; j < n; ++j) {
      a(j, j) += kPull;
      g(j) += kPull * *x[static_cast<std::size_t>(j)];
    }
    for (const std::size_t i : on_) {
      const double here = residual(i, factors);
      Eigen::VectorXd slope = Eigen::VectorXd::Zero(n);
      for (Eigen::Index j = 0; j < n; ++j) {
        double& each = *x[static_cast<std::size_t>(j)];
        if (&each != &factors.models.at(rows_[i].model) && &each != &factors.networks.at(rows_[i].network))
          continue;
        const double before = each;
        each += kDifference;
        slope(j) = (residual(i, factors) - here) / kDifference;
        each = before;
      }
      a += slope * slope.transpose();
      g += slope * here;
    }
    a.diagonal() *= 1 + damping;
    const Eigen::VectorXd move = a.ldlt().solve(g);
    for (Eigen::Index j = 0; j < n; ++j) {
      double& each = *x[static_cast<std::size_t>(j)];
      each = std::clamp(each - move(j), -kMaxLogarithm, kMaxLogarithm);
    }
    return factors;
  }

  const std::vector<Measurement>& rows_;
  const Predictor& predictor_;
  std::vector<std::size_t> on_;
};

/// Starts from networks as given, slower and faster: from a network that is hidden completely, the fit would
/// get no gradient.
Factors fit(const std::vector<Measurement>& rows, const std::vector<bool>& on, const Predictor& predictor) {
  const Fit fit(rows, on, predictor);
  std::optional<Factors> best;
  for (const double start : {0.0, 1.5, -1.5}) {
    Factors factors;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!on[i]) continue;
      factors.models.emplace(rows[i].model, 0);
      factors.networks.emplace(rows[i].network, start);
    }
    factors = fit.from(std::move(factors));
    if (!best || fit.cost(factors) < fit.cost(*best)) best = std::move(factors);
  }
  return *best;
}

/// Mean samples per second and worker of each model's calibration rows.
std::map<std::string, double> means_per_worker(const std::vector<Measurement>& rows,
                                               const std::vector<bool>& on) {
  std::map<std::string, double> out;
  std::map<std::string, double> counts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!on[i]) continue;
    out[rows[i].model] += rows[i].samples_per_s / static_cast<double>(rows[i].workers);
    counts[rows[i].model] += 1;
  }
  for (auto& [model, sum] : out) sum /= counts[model];
  return out;
}

void count(Errors& errors, double error) {
  errors.mean =
      (errors.mean * static_cast<double>(errors.rows) + error) / static_cast<double>(errors.rows + 1);
  errors.worst = std::max(errors.worst, error);
  ++errors.rows;
}

}  // namespace

double max_factor() { return std::exp(kMaxLogarithm); }

MeasurementsResult calibrate_and_predict(const std::vector<Measurement>& rows,
                                         const std::vector<bool>& calibrate_on, const Setup& setup,
                                         const std::string& source) {
  if (std::find(calibrate_on.begin(), calibrate_on.end(), false) == calibrate_on.end())
    throw core::InputError("--calibrate-on: expected rows to be left to predict, got all of them");
  const Predictor predictor(rows, setup, source);
  const Factors factors = fit(rows, calibrate_on, predictor);
  const std::map<std::string, double> null = means_per_worker(rows, calibrate_on);
  MeasurementsResult out;
  for (const auto& [name, logarithm] : factors.models) out.compute_factors[name] = std::exp(logarithm);
  for (const auto& [name, logarithm] : factors.networks) out.per_byte_factors[name] = std::exp(logarithm);
  for (const auto* group : {&factors.models, &factors.networks})
    for (const auto& [name, logarithm] : *group)
      if (std::abs(logarithm) >= kMaxLogarithm) out.at_limit.push_back(name);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    PredictedRow row = {.measured = rows[i],
                        .is_calibrated_on = calibrate_on[i],
                        .samples_per_s = predictor.samples_per_s(i, factors),
                        .error = 0,
                        .null_error = {}};
    row.error = relative(row.samples_per_s, rows[i].samples_per_s);
    if (const auto found = null.find(rows[i].model); found != null.end())
      row.null_error = relative(found->second * static_cast<double>(rows[i].workers), rows[i].samples_per_s);
    if (!row.is_calibrated_on) count(row.null_error ? out.ours : out.others, row.error);
    if (!row.is_calibrated_on && row.null_error) count(out.null, *row.null_error);
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace validate
