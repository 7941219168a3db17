#include "validate/measurements/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <Eigen/Dense>

#include "core/errors.hpp"
#include "core/scaled.hpp"
#include "planner/run/predict.hpp"

namespace validate {
namespace {

/// Logarithms of the factors, by model and by network.
struct Factors {
  std::vector<double> models;
  std::vector<double> networks;
};

/// Weight of the regularization: a factor of e costs as much as a few errors of 1 %. That decides where
/// measurements say nothing, and is negligible elsewhere.
constexpr double kPull = 1e-4;
constexpr double kMaxLogarithm = 4;

/// The models or networks that rows name, sorted by name.
template <typename Value>
class Named {
 public:
  void add(const std::string& name, const Value& value) {
    if (index_.emplace(name, 0).second) values_.emplace(name, &value);
  }
  /// To be called after the last name.
  void number() {
    std::size_t next = 0;
    for (auto& [name, index] : index_) index = next++;
  }

  std::size_t size() const { return index_.size(); }
  std::size_t index(const std::string& name) const { return index_.at(name); }
  const std::map<std::string, std::size_t>& indexes() const { return index_; }

  /// All values, each by the factor of this logarithm.
  template <typename Scale>
  std::vector<Value> scaled(const std::vector<double>& logarithms, const Scale& scale) const {
    std::vector<Value> out;
    out.reserve(size());
    for (const auto& [name, value] : values_) out.push_back(scale(*value, std::exp(logarithms[out.size()])));
    return out;
  }

 private:
  std::map<std::string, std::size_t> index_;
  std::map<std::string, const Value*> values_;
};

/// The iteration time that a simulation gives, many times as fast where a model of the schedule gives it,
/// too.
double iteration_us(const planner::Setting& setting, const planner::Schedule& schedule) {
  const planner::FusionRequest request = planner::request_of(setting, schedule);
  if (std::ranges::any_of(request.transfers, &planner::TransferCost::has_spikes))
    return planner::run(setting, schedule).metrics.iteration_us;
  return planner::within_clock(
      [&] { return planner::iteration_us(request, schedule.fusion.fuse(request).groups); });
}

/// Predicts rows. Rows that differ only in what was measured are one configuration, simulated once.
class Predictor {
 public:
  Predictor(const std::vector<Measurement>& rows, const Setup& setup, const std::string& source)
      : setup_(setup), source_(source) {
    for (const Measurement& row : rows) {
      models_.add(row.model, known(setup.models, row.model, row, "model"));
      networks_.add(row.network, known(setup.networks, row.network, row, "network"));
    }
    models_.number();
    networks_.number();
    std::map<Key, std::size_t> found;
    for (const Measurement& row : rows) {
      const Key key = {models_.index(row.model), networks_.index(row.network), row.schedule, row.workers};
      const auto [at, is_new] = found.emplace(key, configurations_.size());
      if (is_new)
        configurations_.push_back(
            {.row = &row, .model = std::get<0>(key), .network = std::get<1>(key), .schedule = schedule(row)});
      of_row_.push_back(at->second);
    }
  }

  const Named<core::Profile>& models() const { return models_; }
  const Named<core::Network>& networks() const { return networks_; }
  std::size_t configurations() const { return configurations_.size(); }
  std::size_t configuration(std::size_t row) const { return of_row_[row]; }
  std::size_t model(std::size_t configuration) const { return configurations_[configuration].model; }
  std::size_t network(std::size_t configuration) const { return configurations_[configuration].network; }

  std::vector<core::Profile> profiles_at(const std::vector<double>& logarithms) const {
    return models_.scaled(logarithms, [](const core::Profile& profile, double factor) {
      return core::scaled(profile, factor);
    });
  }
  std::vector<core::Network> networks_at(const std::vector<double>& logarithms) const {
    return networks_.scaled(logarithms, [](const core::Network& network, double factor) {
      return core::scaled(network, 1, factor);
    });
  }

  double samples_per_s(std::size_t configuration, const std::vector<core::Profile>& profiles,
                       const std::vector<core::Network>& networks) const {
    const Configuration& of = configurations_[configuration];
    try {
      const planner::Setting setting(profiles[of.model], networks[of.network], of.row->workers,
                                     of.schedule.all_reduce ? *of.schedule.all_reduce : setup_.all_reduce,
                                     {});
      constexpr double kUsPerSecond = 1e6;
      const double samples =
          static_cast<double>(setting.workload.profile->batch_size) * static_cast<double>(of.row->workers);
      return samples / iteration_us(setting, of.schedule) * kUsPerSecond;
    } catch (const core::Unsupported& problem) {
      expected(*of.row, problem.expected(), problem.got());
    }
  }

 private:
  using Key = std::tuple<std::size_t, std::size_t, std::string, std::int64_t>;

  struct Configuration {
    const Measurement* row;  ///< the first one
    std::size_t model = 0;
    std::size_t network = 0;
    planner::Schedule schedule;
  };

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

  const Setup& setup_;
  const std::string& source_;
  Named<core::Profile> models_;
  Named<core::Network> networks_;
  std::vector<Configuration> configurations_;
  std::vector<std::size_t> of_row_;
};

double relative(double ours, double measured) { return std::abs(ours - measured) / measured; }

/// Least squares by Levenberg and Marquardt over the logarithms of the errors.
class Fit {
 public:
  Fit(const std::vector<Measurement>& rows, const std::vector<bool>& on, const Predictor& predictor)
      : rows_(rows),
        predictor_(predictor),
        is_calibrated_(predictor.configurations()),
        model_(predictor.models().size()),
        network_(predictor.networks().size()) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!on[i]) continue;
      on_.push_back(i);
      const std::size_t configuration = predictor.configuration(i);
      is_calibrated_[configuration] = true;
      model_[predictor.model(configuration)] = network_[predictor.network(configuration)] = 0;
    }
    for (auto* places : {&model_, &network_})
      for (std::optional<Eigen::Index>& place : *places)
        if (place) place = unknowns_++;
  }

  /// Factors, and the cost that they reach.
  struct Found {
    Factors factors;
    double cost = 0;
  };

  Found from(double network_logarithm) const {
    constexpr int kSteps = 40;
    constexpr double kLittle = 1e-9;
    constexpr double kStubborn = 1e9;
    double damping = 1e-3;
    Point at = point(start(network_logarithm));
    std::optional<Linear> linear;  // at that point; only its damping differs from one attempt to the next
    for (int i = 0; i < kSteps && damping < kStubborn; ++i) {
      if (!linear) linear = linearized(at);
      Point next = point(moved(at.factors, *linear, damping));
      if (next.cost >= at.cost) {
        damping *= 10;
        continue;
      }
      const bool done = at.cost - next.cost < kLittle * at.cost;
      at = std::move(next);
      linear.reset();
      damping /= 10;
      if (done) break;
    }
    return {.factors = std::move(at.factors), .cost = at.cost};
  }

  bool fits_model(std::size_t model) const { return model_[model].has_value(); }
  bool fits_network(std::size_t network) const { return network_[network].has_value(); }

 private:
  /// Factors with what they predict, by configuration.
  struct Point {
    Factors factors;
    std::vector<core::Profile> profiles;
    std::vector<core::Network> networks;
    std::vector<double> rates;
    double cost = 0;
  };

  /// The normal equations without damping.
  struct Linear {
    Eigen::MatrixXd a;
    Eigen::VectorXd g;
  };

  Factors start(double network_logarithm) const {
    Factors out = {.models = std::vector<double>(model_.size()),
                   .networks = std::vector<double>(network_.size())};
    for (std::size_t i = 0; i < network_.size(); ++i)
      if (network_[i]) out.networks[i] = network_logarithm;
    return out;
  }

  Point point(Factors factors) const {
    Point out = {.factors = std::move(factors), .profiles = {}, .networks = {}, .rates = {}};
    out.profiles = predictor_.profiles_at(out.factors.models);
    out.networks = predictor_.networks_at(out.factors.networks);
    out.rates = rates(out.profiles, out.networks);
    for (const auto* logarithms : {&out.factors.models, &out.factors.networks})
      for (const double each : *logarithms) out.cost += kPull * each * each;
    for (const std::size_t i : on_) out.cost += residual(i, out.rates) * residual(i, out.rates);
    return out;
  }

  std::vector<double> rates(const std::vector<core::Profile>& profiles,
                            const std::vector<core::Network>& networks) const {
    std::vector<double> out(is_calibrated_.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      if (is_calibrated_[i]) out[i] = predictor_.samples_per_s(i, profiles, networks);
    return out;
  }

  double residual(std::size_t row, const std::vector<double>& rates) const {
    return std::log(rates[predictor_.configuration(row)] / rows_[row].samples_per_s);
  }

  Linear linearized(const Point& at) const {
    constexpr double kDifference = 1e-4;
    const auto increased = [](std::vector<double> logarithms) {
      for (double& each : logarithms) each += kDifference;
      return logarithms;
    };
    const std::vector<double> slower =
        rates(predictor_.profiles_at(increased(at.factors.models)), at.networks);
    const std::vector<double> longer =
        rates(at.profiles, predictor_.networks_at(increased(at.factors.networks)));
    Linear out = {.a = Eigen::MatrixXd::Zero(unknowns_, unknowns_), .g = Eigen::VectorXd::Zero(unknowns_)};
    const auto pull = [&](const std::vector<std::optional<Eigen::Index>>& places,
                          const std::vector<double>& logarithms) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        if (!places[i]) continue;
        out.a(*places[i], *places[i]) += kPull;
        out.g(*places[i]) += kPull * logarithms[i];
      }
    };
    pull(model_, at.factors.models);
    pull(network_, at.factors.networks);
    for (const std::size_t i : on_) {
      const std::size_t configuration = predictor_.configuration(i);
      const Eigen::Index model = *model_[predictor_.model(configuration)];
      const Eigen::Index network = *network_[predictor_.network(configuration)];
      const double here = residual(i, at.rates);
      const double by_model = (residual(i, slower) - here) / kDifference;
      const double by_network = (residual(i, longer) - here) / kDifference;
      out.a(model, model) += by_model * by_model;
      out.a(model, network) += by_model * by_network;
      out.a(network, model) += by_model * by_network;
      out.a(network, network) += by_network * by_network;
      out.g(model) += by_model * here;
      out.g(network) += by_network * here;
    }
    return out;
  }

  Factors moved(Factors factors, Linear linear, double damping) const {
    linear.a.diagonal() *= 1 + damping;
    const Eigen::VectorXd move = linear.a.ldlt().solve(linear.g);
    const auto apply = [&](const std::vector<std::optional<Eigen::Index>>& places,
                           std::vector<double>& logarithms) {
      for (std::size_t i = 0; i < places.size(); ++i)
        if (places[i])
          logarithms[i] = std::clamp(logarithms[i] - move(*places[i]), -kMaxLogarithm, kMaxLogarithm);
    };
    apply(model_, factors.models);
    apply(network_, factors.networks);
    return factors;
  }

  const std::vector<Measurement>& rows_;
  const Predictor& predictor_;
  std::vector<std::size_t> on_;
  std::vector<bool> is_calibrated_;                   // by configuration
  std::vector<std::optional<Eigen::Index>> model_;    // by model: its unknown; none without calibration rows
  std::vector<std::optional<Eigen::Index>> network_;  // by network
  Eigen::Index unknowns_ = 0;
};

/// Starts from networks as given, slower and faster: from a network that is hidden completely, the fit would
/// get no gradient.
Factors best_fit(const Fit& fit) {
  std::optional<Fit::Found> best;
  for (const double start : {0.0, 1.5, -1.5}) {
    Fit::Found found = fit.from(start);
    if (!best || found.cost < best->cost) best = std::move(found);
  }
  return best->factors;
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

/// The rate of every configuration.
std::vector<double> predicted(const Predictor& predictor, const Factors& factors) {
  const std::vector<core::Profile> profiles = predictor.profiles_at(factors.models);
  const std::vector<core::Network> networks = predictor.networks_at(factors.networks);
  std::vector<double> out;
  for (std::size_t i = 0; i < predictor.configurations(); ++i)
    out.push_back(predictor.samples_per_s(i, profiles, networks));
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
  const Fit fit(rows, calibrate_on, predictor);
  const Factors factors = best_fit(fit);
  const std::map<std::string, double> null = means_per_worker(rows, calibrate_on);
  MeasurementsResult out;
  const auto add = [&](const std::string& name, double logarithm, std::map<std::string, double>& to) {
    to[name] = std::exp(logarithm);
    if (std::abs(logarithm) >= kMaxLogarithm) out.at_limit.push_back(name);
  };
  for (const auto& [name, i] : predictor.models().indexes())
    if (fit.fits_model(i)) add(name, factors.models[i], out.compute_factors);
  for (const auto& [name, i] : predictor.networks().indexes())
    if (fit.fits_network(i)) add(name, factors.networks[i], out.per_byte_factors);
  const std::vector<double> rates = predicted(predictor, factors);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    PredictedRow row = {.measured = rows[i],
                        .is_calibrated_on = calibrate_on[i],
                        .samples_per_s = rates[predictor.configuration(i)],
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
