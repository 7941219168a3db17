#include "validate/measurements/calibrate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "validate/measurements/fit.hpp"
#include "validate/measurements/null_predictors.hpp"

namespace validate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

/// Below this part of what was uncertain a number counts as not determined by the rows.
constexpr double kDetermined = 0.5;
/// What rows respond to by less than this many errors, over all that was uncertain, they do not depend on.
constexpr double kSensitive = 1;
/// Leaving out a quantity that the rows determine must lower the mean cross-validated error by this part.
constexpr double kWorthwhile = 0.25;

constexpr std::array<FittedQuantity, 2> kAlways = {FittedQuantity::compute_factor, FittedQuantity::per_byte};

Index index(std::size_t i) { return static_cast<Index>(i); }

bool contains(const std::vector<FittedQuantity>& all, FittedQuantity one) {
  return std::ranges::find(all, one) != all.end();
}

bool is_always_fitted(FittedQuantity quantity) {
  return std::ranges::find(kAlways, quantity) != kAlways.end();
}

bool starts_at_zero(FittedQuantity quantity) {
  return quantity == FittedQuantity::fixed_startup || quantity == FittedQuantity::communication_slowdown ||
         quantity == FittedQuantity::compute_slowdown;
}

/// The rows of a subset by what they tell: of which models, and of which networks up to which levels.
struct Seen {
  std::set<std::size_t> models;
  std::map<std::size_t, std::set<std::size_t>> networks;  // with the outermost level of each row
};

Seen seen_in(const Predictor& predictor, const std::vector<std::size_t>& rows) {
  Seen out;
  for (const std::size_t row : rows) {
    const Predictor::Configuration& of = predictor.configurations()[predictor.configuration_of(row)];
    out.models.insert(of.model);
    if (of.row.workers < 2) continue;
    out.networks[of.network].insert(outermost_level(predictor.network(of.network), of.row.workers));
  }
  return out;
}

/// Whether a slow-down of the network reaches a row: profiles may state their own.
bool has_open_overlap(const Predictor& predictor, const std::vector<std::size_t>& rows, std::size_t network) {
  return std::ranges::any_of(rows, [&](std::size_t row) {
    const Predictor::Configuration& of = predictor.configurations()[predictor.configuration_of(row)];
    return of.network == network && of.row.workers > 1 && !predictor.overlap(of.model);
  });
}

std::vector<Number> numbers_for(const Predictor& predictor, const std::vector<std::size_t>& rows,
                                const std::vector<FittedQuantity>& quantities) {
  const Seen seen = seen_in(predictor, rows);
  std::vector<Number> out;
  const auto add = [&](const std::vector<Number>& more, bool open_overlap) {
    for (const Number& number : more) {
      const bool is_slowdown = number.quantity == FittedQuantity::communication_slowdown ||
                               number.quantity == FittedQuantity::compute_slowdown;
      if (contains(quantities, number.quantity) && (open_overlap || !is_slowdown)) out.push_back(number);
    }
  };
  for (const std::size_t model : seen.models)
    add(numbers_of(predictor.models()[model], predictor.profile(model)), false);
  for (const auto& [network, levels] : seen.networks)
    add(numbers_of(predictor.networks()[network], predictor.network(network), *levels.rbegin()),
        has_open_overlap(predictor, rows, network));
  return out;
}

std::string_view remedy_for(FittedQuantity quantity) {
  switch (quantity) {
    case FittedQuantity::compute_factor: return "a run of the model on one worker";
    case FittedQuantity::per_byte:
      return "a run in which communication takes longer than the backward pass, with few large groups";
    case FittedQuantity::startup_per_hop: return "runs without fusion on two numbers of workers";
    case FittedQuantity::fixed_startup:
      return "runs without fusion on two numbers of workers, the smaller the better";
    case FittedQuantity::communication_slowdown:
      return "a run without overlap (after_backward) beside one with overlap (wfbp)";
    case FittedQuantity::compute_slowdown:
      return "a run with overlap (wfbp) in which communication is hidden, beside one on a single worker";
    case FittedQuantity::forward_share:
      return "a profile with measured forward times, or runs with and without overlap on a fast network";
  }
  return "";
}

/// The numbers whose common effect on the rows is nearly that of number k.
std::vector<std::size_t> confused_with(const FitResult& result, std::size_t k) {
  const Index count = result.derivatives.cols();
  const VectorXd own = result.derivatives.col(index(k));
  Eigen::MatrixXd others = result.derivatives;
  others.col(index(k)).setZero();
  // The ridge is what is known beforehand, so that no number is moved further than is likely.
  const Eigen::MatrixXd a = others.transpose() * others + Eigen::MatrixXd::Identity(count, count);
  const VectorXd share = a.ldlt().solve(others.transpose() * own);
  std::vector<std::pair<double, std::size_t>> found;
  for (Index j = 0; j < count; ++j)
    if (j != index(k)) found.emplace_back(std::abs(share(j)) * result.response(j), j);
  std::sort(found.rbegin(), found.rend());
  std::vector<std::size_t> out;
  constexpr double kMatters = 0.3;
  for (const auto& [size, j] : found)
    if (size >= kMatters * own.norm() && out.size() < 2) out.push_back(j);
  return out;
}

class Calibrator {
 public:
  Calibrator(const std::vector<Measurement>& rows, const std::vector<bool>& on, const Predictor& predictor,
             const std::string& source)
      : rows_(rows), predictor_(predictor), source_(source) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (on[i]) on_.push_back(i);
  }

  Calibration run(const CalibrateOptions& options) {
    const Chosen chosen = options.fit ? requested(*options.fit) : best();
    Calibration out;
    out.tried = tried_;
    out.calibrated_rows = on_.size();
    check_told_apart(chosen.fit, chosen.result);
    for (const HeldNumber& held : chosen.held) out.held.push_back(held);
    hold_the_undetermined(chosen, out);
    out.numbers = chosen.fit.at(chosen.result.at);
    cross_validate(chosen, out);
    add_numbers(chosen, uncertainty(chosen.fit, chosen.result.at, true), out);
    add_rows(chosen, out);
    return out;
  }

 private:
  /// A fit of the numbers that rows determine.
  struct Chosen {
    std::vector<FittedQuantity> quantities;
    Fit fit;
    FitResult result;
    std::vector<HeldNumber> held;
  };

  const Predictor::Configuration& configuration(std::size_t row) const {
    return predictor_.configurations()[predictor_.configuration_of(row)];
  }

  std::string describe(const Number& number) const {
    if (is_of_model(number.quantity)) return description(number, nullptr);
    const auto& names = predictor_.networks();
    const auto at = std::ranges::find(names, number.owner) - names.begin();
    return description(number, &predictor_.network(static_cast<std::size_t>(at)));
  }

  HeldNumber held(const Fit& fit, const FitResult& result, std::size_t k) const {
    HeldNumber out = {.number = fit.numbers()[k], .confused_with = {}, .remedy = {}};
    if (result.response(index(k)) >= kSensitive)
      for (const std::size_t j : confused_with(result, k))
        out.confused_with.push_back(describe(fit.numbers()[j]));
    out.remedy = remedy_for(out.number.quantity);
    return out;
  }

  [[noreturn]] void refuse(const HeldNumber& number) const {
    if (number.confused_with.empty())
      throw core::InputError(fmt::format(
          "{}: /: expected rows that depend on the {}, got none that does by more than {:.0f} %; what "
          "helps is {}",
          source_, describe(number.number), 100 * kRowError, number.remedy));
    throw core::InputError(fmt::format(
        "{}: /: expected rows that tell the {} from the {}, got rows on which they have the same effect; "
        "what helps is {}",
        source_, describe(number.number), fmt::join(number.confused_with, " and the "), number.remedy));
  }

  /// Fits these quantities. Numbers that rows do not determine are held one by one, the least determined
  /// first.
  Chosen determined(const std::vector<FittedQuantity>& quantities) const {
    std::vector<Number> numbers = numbers_for(predictor_, on_, quantities);
    std::vector<HeldNumber> out;
    while (true) {
      Fit fit(predictor_, numbers, on_);
      FitResult result = fit.result(fit.minimum());
      std::size_t least = numbers.size();
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        const bool is_kept = is_always_fitted(numbers[k].quantity) && result.response(index(k)) >= kSensitive;
        if (is_kept || result.learned(index(k)) >= kDetermined) continue;
        if (least == numbers.size() || result.learned(index(k)) < result.learned(index(least))) least = k;
      }
      if (least == numbers.size())
        return {.quantities = quantities, .fit = std::move(fit), .result = std::move(result), .held = out};
      out.push_back(held(fit, result, least));
      numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(least));
    }
  }

  Chosen requested(std::vector<FittedQuantity> quantities) {
    for (const FittedQuantity each : kAlways)
      if (!contains(quantities, each)) quantities.push_back(each);
    Chosen out = determined(quantities);
    for (const HeldNumber& each : out.held)
      if (numbers_without(out, each.number.quantity) == out.fit.numbers().size()) refuse(each);
    tried_.push_back({.quantities = quantities, .error = mean_error(out), .is_chosen = true});
    return out;
  }

  /// Fits every number that the rows determine, and leaves out a quantity only where rows that were left out
  /// are predicted far better without it. Choosing the other way round, from few quantities to many, is
  /// unsure with few rows: a slow-down or a startup that no row shows by itself is never added.
  Chosen best() {
    Chosen out = determined({kQuantities.begin(), kQuantities.end()});
    double error = mean_error(out);
    tried_.push_back({.quantities = fitted_quantities(out), .error = error});
    std::size_t chosen = 0;
    std::vector<HeldNumber> left_out = out.held;
    for (bool is_better = error > 0; is_better;) {
      is_better = false;
      // What was held may be determined without what is left out next, so it stays among what is asked for.
      const std::vector<FittedQuantity> asked_for = out.quantities;
      const std::vector<FittedQuantity> before = fitted_quantities(out);
      const double to_beat = error * (1 - kWorthwhile);
      for (const FittedQuantity each : before) {
        if (is_always_fitted(each)) continue;
        std::vector<FittedQuantity> quantities = asked_for;
        std::erase(quantities, each);
        Chosen next = determined(quantities);
        const double its_error = mean_error(next);
        tried_.push_back({.quantities = fitted_quantities(next), .error = its_error});
        if (its_error > to_beat || its_error >= error) continue;
        error = its_error;
        out = std::move(next);
        chosen = tried_.size() - 1;
        is_better = true;
      }
    }
    tried_[chosen].is_chosen = true;
    note(out.held, left_out);
    std::erase_if(out.held, [&](const HeldNumber& each) {
      return std::ranges::any_of(out.fit.numbers(),
                                 [&](const Number& fitted) { return is_same(fitted, each.number); });
    });
    return out;
  }

  static std::vector<FittedQuantity> fitted_quantities(const Chosen& chosen) {
    std::vector<FittedQuantity> out;
    for (const FittedQuantity each : kQuantities)
      if (is_always_fitted(each) || numbers_without(chosen, each) < chosen.fit.numbers().size())
        out.push_back(each);
    return out;
  }

  static bool is_same(const Number& a, const Number& b) {
    return a.quantity == b.quantity && a.owner == b.owner && a.level == b.level;
  }

  static std::size_t numbers_without(const Chosen& chosen, FittedQuantity quantity) {
    return static_cast<std::size_t>(std::ranges::count_if(
        chosen.fit.numbers(), [&](const Number& each) { return each.quantity != quantity; }));
  }

  /// Adds what is not noted yet.
  static void note(std::vector<HeldNumber>& to, const std::vector<HeldNumber>& more) {
    for (const HeldNumber& each : more)
      if (std::ranges::none_of(to,
                               [&](const HeldNumber& known) { return is_same(known.number, each.number); }))
        to.push_back(each);
  }

  /// Refuses rows that cannot tell compute from communication.
  void check_told_apart(const Fit& fit, const FitResult& result) const {
    for (std::size_t k = 0; k < fit.numbers().size(); ++k) {
      if (result.learned(index(k)) >= kDetermined || result.response(index(k)) < kSensitive) continue;
      for (const std::size_t j : confused_with(result, k)) {
        HeldNumber out = {.number = fit.numbers()[k],
                          .confused_with = {describe(fit.numbers()[j])},
                          .remedy = std::string(remedy_for(FittedQuantity::compute_factor))};
        if (fit.numbers()[k].quantity == FittedQuantity::compute_factor ||
            fit.numbers()[j].quantity == FittedQuantity::compute_factor)
          refuse(out);
      }
    }
  }

  /// Names the numbers of the quantities that are always fitted, but of which rows say next to nothing: they
  /// are as known beforehand.
  void hold_the_undetermined(const Chosen& chosen, Calibration& out) const {
    for (std::size_t k = 0; k < chosen.fit.numbers().size(); ++k)
      if (chosen.result.learned(index(k)) < kDetermined)
        out.held.push_back(held(chosen.fit, chosen.result, k));
  }

  std::string key(const Measurement& row, std::string_view what) const {
    if (what == "schedule") return row.schedule;
    if (what == "workers") return fmt::to_string(row.workers);
    return what == "model" ? row.model : row.network;
  }

  /// Predicts each row of a group from the other rows, for every group of this kind; beyond kMaxLeftOut
  /// groups several are left out together. Rows on one worker are never left out. `take` gets the fit to the
  /// others, its minimum, and the rows to predict.
  template <typename Take>
  void leave_out(const Chosen& chosen, std::string_view what, const Take& take) const {
    constexpr std::size_t kMaxLeftOut = 16;
    std::map<std::string, std::size_t> number_of;  // of the group
    for (const std::size_t row : on_)
      if (rows_[row].workers > 1) number_of.emplace(key(rows_[row], what), 0);
    if (number_of.size() < 2) return;
    std::size_t next = 0;
    for (auto& [group, number] : number_of) number = next++ % kMaxLeftOut;
    for (std::size_t each = 0; each < std::min(number_of.size(), kMaxLeftOut); ++each) {
      std::vector<std::size_t> kept;
      std::vector<std::size_t> left_out;
      for (const std::size_t row : on_) {
        const bool is_left_out = rows_[row].workers > 1 && number_of.at(key(rows_[row], what)) == each;
        (is_left_out ? left_out : kept).push_back(row);
      }
      const Seen seen = seen_in(predictor_, kept);
      std::erase_if(left_out, [&](std::size_t row) {
        const Predictor::Configuration& of = configuration(row);
        const auto network = seen.networks.find(of.network);
        const bool has_network =
            network != seen.networks.end() &&
            network->second.count(outermost_level(predictor_.network(of.network), of.row.workers)) > 0;
        return seen.models.count(of.model) == 0 || (what != "network" && !has_network);
      });
      if (left_out.empty()) continue;
      const Fit fit(predictor_, chosen.fit.numbers(), kept);
      take(fit, fit.minimum(fit.known()), left_out);
    }
  }

  /// What is uncertain of all numbers that could be fitted to the rows of a fit, at its minimum. A number
  /// that is not fitted stands where it is known to be, which does not make it certain.
  struct Uncertainty {
    Fit fit;
    FitResult result;
  };
  Uncertainty uncertainty(const Fit& fitted, const VectorXd& at, bool with_those_at_zero) const {
    std::vector<Number> numbers;
    std::vector<double> positions;
    for (const Number& each :
         numbers_for(predictor_, fitted.rows(), {kQuantities.begin(), kQuantities.end()})) {
      double position = each.start;
      for (std::size_t k = 0; k < fitted.numbers().size(); ++k)
        if (is_same(each, fitted.numbers()[k])) position = at(index(k));
      if (starts_at_zero(each.quantity) && position <= each.lower && !with_those_at_zero) continue;
      numbers.push_back(each);
      positions.push_back(position);
    }
    Fit fit(predictor_, numbers, fitted.rows());
    FitResult result = fit.result(Eigen::Map<const VectorXd>(positions.data(), index(positions.size())));
    return {.fit = std::move(fit), .result = std::move(result)};
  }

  /// The standard deviation of the logarithm of each predicted time: what the numbers leave open, and the
  /// error of a row by itself. Startups and slow-downs at 0 can only make a row slower.
  struct Deviations {
    std::vector<double> slower;
    std::vector<double> faster;
  };
  Deviations deviations(const Fit& fitted, const VectorXd& at, const std::vector<std::size_t>& rows) const {
    return {.slower = deviations(uncertainty(fitted, at, true), rows),
            .faster = deviations(uncertainty(fitted, at, false), rows)};
  }
  static std::vector<double> deviations(const Uncertainty& of, const std::vector<std::size_t>& rows) {
    const Eigen::MatrixXd derivatives = of.fit.derivatives(rows, of.result.at);
    std::vector<double> out;
    for (Index i = 0; i < derivatives.rows(); ++i) {
      const VectorXd gradient = derivatives.row(i).transpose();
      const double of_numbers = gradient.dot(of.result.covariance * gradient);
      out.push_back(of.result.scale * std::sqrt(of_numbers + kRowError * kRowError));
    }
    return out;
  }

  static constexpr std::array<std::string_view, 3> kScored = {"schedule", "workers", "model"};

  /// The mean error of the logarithms; 0 if no group can be left out. Not the mean square, which the few rows
  /// that nothing else tells about would decide alone.
  double mean_error(const Chosen& chosen) const {
    double sum = 0;
    double count = 0;
    for (const std::string_view what : kScored)
      leave_out(chosen, what, [&](const Fit& fit, const VectorXd& at, const std::vector<std::size_t>& rows) {
        const std::vector<double> times = fit.iterations_us(rows, at);
        for (std::size_t i = 0; i < rows.size(); ++i) sum += std::abs(fit.log_error(rows[i], times[i]));
        count += static_cast<double>(rows.size());
      });
    return count > 0 ? sum / count : 0;
  }

  /// Collects the errors of rows left out, and widens all intervals if these errors exceed what was stated of
  /// them: then the rows differ in what no number describes.
  void cross_validate(const Chosen& chosen, Calibration& out) const {
    double squares = 0;
    double count = 0;
    for (const std::string_view what : {"schedule", "workers", "model", "network"}) {
      LeftOut next = {.what = std::string(what), .errors = {}};
      const bool is_scored = std::ranges::find(kScored, what) != kScored.end();
      leave_out(chosen, what, [&](const Fit& fit, const VectorXd& at, const std::vector<std::size_t>& rows) {
        const std::vector<double> times = fit.iterations_us(rows, at);
        const Deviations stated = deviations(fit, at, rows);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          next.errors.add(relative_error(rows[i], times[i]), description(rows_[rows[i]]));
          if (!is_scored) continue;
          const double off = fit.log_error(rows[i], times[i]);
          const double error = off / (off > 0 ? stated.faster : stated.slower)[i];
          squares += error * error;
          ++count;
        }
      });
      if (next.errors.rows > 0) out.cross_validation.push_back(std::move(next));
    }
    if (count > 0) out.widening = std::max(1.0, std::sqrt(squares / count));
    for (const Tried& each : tried_)
      if (each.is_chosen) out.cross_validated_error = each.error;
  }

  double relative_error(std::size_t row, double us) const {
    return std::abs(predictor_.measured_us(row) / us - 1);
  }

  void add_numbers(const Chosen& chosen, const Uncertainty& of, Calibration& out) const {
    const FitResult& uncertain = of.result;
    const std::vector<Number>& all = of.fit.numbers();
    const double scale = uncertain.scale * out.widening;
    out.quantile = t_quantile(uncertain.freedom);
    for (const NetworkNumbers& each : out.numbers.networks)
      out.deviations.emplace_back(
          each.levels.size(), LevelDeviation{.startup = scale * kRowError, .per_byte = scale * kRowError});
    for (std::size_t k = 0; k < chosen.fit.numbers().size(); ++k) {
      const Number& number = chosen.fit.numbers()[k];
      const auto in_all = static_cast<Index>(
          std::ranges::find_if(all, [&](const Number& each) { return is_same(each, number); }) - all.begin());
      const double deviation = scale * std::sqrt(uncertain.covariance(in_all, in_all)) * number.uncertainty;
      out.fitted.push_back(fitted(number, chosen.result.at(index(k)), out.quantile * deviation));
      if (!is_of_model(number.quantity)) add_deviation(number, chosen.result.at(index(k)), deviation, out);
    }
  }

  static FittedNumber fitted(const Number& number, double at, double off) {
    constexpr double kTouching = 1e-6;
    return {.number = number,
            .value = value_of(number, at),
            .interval = {.low = value_of(number, std::max(number.lower, at - off)),
                         .high = value_of(number, std::min(number.upper, at + off))},
            .at_bound = (!starts_at_zero(number.quantity) && at <= number.lower + kTouching) ||
                        at >= number.upper - kTouching};
  }

  /// What the output files hold.
  void add_deviation(const Number& number, double at, double deviation, Calibration& out) const {
    const auto& names = predictor_.networks();
    const auto network = static_cast<std::size_t>(std::ranges::find(names, number.owner) - names.begin());
    LevelDeviation& its = out.deviations[network][number.level];
    if (number.quantity == FittedQuantity::per_byte) its.per_byte = std::max(its.per_byte, deviation);
    if (number.quantity == FittedQuantity::startup_per_hop) its.startup = std::max(its.startup, deviation);
    if (number.quantity == FittedQuantity::fixed_startup && at > 0)
      its.startup = std::max(its.startup, std::min(1.0, deviation / at));
  }

  void add_rows(const Chosen& chosen, Calibration& out) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < rows_.size(); ++i) all.push_back(i);
    const std::vector<double> times = chosen.fit.iterations_us(all, chosen.result.at);
    const Deviations stated = deviations(chosen.fit, chosen.result.at, all);
    const Seen seen = seen_in(predictor_, on_);
    const std::set<std::size_t> calibrated(on_.begin(), on_.end());
    for (const std::size_t i : all) {
      const Predictor::Configuration& of = configuration(i);
      const double samples =
          static_cast<double>(predictor_.profile(of.model).batch_size) * static_cast<double>(of.row.workers);
      constexpr double kUsPerSecond = 1e6;
      CalibratedRow row = {.measured = rows_[i],
                           .is_calibrated_on = calibrated.count(i) > 0,
                           .iteration_us = times[i],
                           .samples_per_s = samples / times[i] * kUsPerSecond,
                           .measured_samples_per_s = samples / predictor_.measured_us(i) * kUsPerSecond,
                           .error = relative_error(i, times[i]),
                           .samples_per_s_interval = {}};
      const bool is_known =
          seen.models.count(of.model) > 0 && (of.row.workers < 2 || seen.networks.count(of.network) > 0);
      if (is_known) {
        const auto factor = [&](double deviation) {
          return std::exp(out.quantile * out.widening * deviation);
        };
        row.samples_per_s_interval = {.low = row.samples_per_s / factor(stated.slower[i]),
                                      .high = row.samples_per_s * factor(stated.faster[i])};
      }
      if (!row.is_calibrated_on) (is_known ? out.ours : out.others).add(row.error, description(rows_[i]));
      out.rows.push_back(std::move(row));
    }
    out.nulls = null_errors(predictor_, out.rows);
  }

  /// The two-sided 95 % quantile of Student's t distribution.
  static double t_quantile(double freedom) {
    constexpr std::array<double, 10> kSmall = {12.706, 4.303, 3.182, 2.776, 2.571,
                                               2.447,  2.365, 2.306, 2.262, 2.228};
    constexpr double kNormal = 1.960;
    const auto whole = static_cast<std::size_t>(std::max(1.0, std::floor(freedom)));
    if (whole <= kSmall.size()) return kSmall.at(whole - 1);
    return kNormal + (kNormal * kNormal * kNormal + kNormal) / (4 * freedom);
  }

  const std::vector<Measurement>& rows_;
  const Predictor& predictor_;
  const std::string& source_;
  std::vector<std::size_t> on_;
  std::vector<Tried> tried_;
};

}  // namespace

Calibration calibrate(const std::vector<Measurement>& rows, const std::vector<bool>& calibrate_on,
                      const Predictor& predictor, const std::string& source,
                      const CalibrateOptions& options) {
  return Calibrator(rows, calibrate_on, predictor, source).run(options);
}

}  // namespace validate
