#include "validate/measurements/fit.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "validate/measurements/least_squares.hpp"

namespace validate {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

Index index(std::size_t i) { return static_cast<Index>(i); }

void set(Numbers& numbers, const Number& number, std::size_t owner, double position) {
  const double value =
      number.quantity == FittedQuantity::forward_share ? std::exp(position) : value_of(number, position);
  switch (number.quantity) {
    case FittedQuantity::compute_factor: numbers.models[owner].compute_factor = value; break;
    case FittedQuantity::forward_share: numbers.models[owner].odds_factor = value; break;
    case FittedQuantity::per_byte: numbers.networks[owner].levels[number.level].per_byte = value; break;
    case FittedQuantity::startup_per_hop:
      numbers.networks[owner].levels[number.level].startup_per_hop = value;
      break;
    case FittedQuantity::fixed_startup:
      numbers.networks[owner].levels[number.level].fixed_startup_us = value;
      break;
    case FittedQuantity::communication_slowdown:
      numbers.networks[owner].overlap.communication_slowdown = value;
      break;
    case FittedQuantity::compute_slowdown: numbers.networks[owner].overlap.compute_slowdown = value; break;
  }
}

}  // namespace

Fit::Fit(const Predictor& predictor, std::vector<Number> numbers, std::vector<std::size_t> rows)
    : predictor_(&predictor), numbers_(std::move(numbers)), rows_(std::move(rows)) {
  for (const Number& number : numbers_) {
    const auto& names = is_of_model(number.quantity) ? predictor.models() : predictor.networks();
    owners_.push_back(static_cast<std::size_t>(std::ranges::find(names, number.owner) - names.begin()));
  }
}

VectorXd Fit::known() const {
  VectorXd out(index(numbers_.size()));
  for (std::size_t i = 0; i < numbers_.size(); ++i) out(index(i)) = numbers_[i].start;
  return out;
}

Numbers Fit::at(const VectorXd& position) const {
  Numbers out = predictor_->known();
  for (std::size_t i = 0; i < numbers_.size(); ++i) set(out, numbers_[i], owners_[i], position(index(i)));
  return out;
}

bool Fit::concerns(std::size_t number, std::size_t configuration) const {
  const Predictor::Configuration& of = predictor_->configurations()[configuration];
  if (is_of_model(numbers_[number].quantity)) return of.model == owners_[number];
  return of.network == owners_[number] && of.row.workers > 1;
}

std::vector<bool> Fit::configurations_of(const std::vector<std::size_t>& rows) const {
  std::vector<bool> out(predictor_->configurations().size());
  for (const std::size_t row : rows) out[predictor_->configuration_of(row)] = true;
  return out;
}

std::vector<double> Fit::configurations_us(const Numbers& numbers, const std::vector<bool>& needed) const {
  std::vector<std::optional<core::Profile>> profiles(numbers.models.size());
  std::vector<std::optional<core::Network>> networks(numbers.networks.size());
  std::vector<double> out(needed.size());
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    const Predictor::Configuration& of = predictor_->configurations()[i];
    std::optional<core::Profile>& profile = profiles[of.model];
    std::optional<core::Network>& network = networks[of.network];
    if (!profile) profile = predictor_->calibrated_profile(of.model, numbers.models[of.model]);
    if (!network) network = predictor_->calibrated_network(of.network, numbers.networks[of.network]);
    out[i] = predictor_->iteration_us(i, *profile, *network, numbers.networks[of.network]);
  }
  return out;
}

std::vector<double> Fit::iterations_us(const std::vector<std::size_t>& rows, const VectorXd& position) const {
  const std::vector<double> all = configurations_us(at(position), configurations_of(rows));
  std::vector<double> out;
  out.reserve(rows.size());
  for (const std::size_t row : rows) out.push_back(all[predictor_->configuration_of(row)]);
  return out;
}

double Fit::log_error(std::size_t row, double iteration_us) const {
  return std::log(iteration_us / predictor_->measured_us(row));
}

MatrixXd Fit::derivatives(const std::vector<std::size_t>& rows, const VectorXd& position) const {
  const std::vector<bool> needed = configurations_of(rows);
  const std::vector<double> here = configurations_us(at(position), needed);
  MatrixXd out = MatrixXd::Zero(index(rows.size()), index(numbers_.size()));
  for (std::size_t k = 0; k < numbers_.size(); ++k) {
    std::vector<bool> touched = needed;
    for (std::size_t i = 0; i < touched.size(); ++i) touched[i] = touched[i] && concerns(k, i);
    VectorXd moved = position;
    const double step =
        position(index(k)) + numbers_[k].step > numbers_[k].upper ? -numbers_[k].step : numbers_[k].step;
    moved(index(k)) += step;
    const std::vector<double> there = configurations_us(at(moved), touched);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t configuration = predictor_->configuration_of(rows[i]);
      if (touched[configuration])
        out(index(i), index(k)) =
            std::log(there[configuration] / here[configuration]) / step * numbers_[k].uncertainty;
    }
  }
  return out;
}

VectorXd Fit::minimum(const VectorXd& start) const {
  const auto count = index(numbers_.size());
  const auto data = index(rows_.size());
  const VectorXd known = this->known();
  VectorXd uncertainty(count);
  LeastSquares problem;
  problem.lower.resize(count);
  problem.upper.resize(count);
  for (Index k = 0; k < count; ++k) {
    const Number& number = numbers_[static_cast<std::size_t>(k)];
    uncertainty(k) = number.uncertainty;
    problem.lower(k) = number.lower / number.uncertainty;
    problem.upper(k) = number.upper / number.uncertainty;
  }
  const auto position = [&](const VectorXd& at) { return VectorXd(at.cwiseProduct(uncertainty)); };
  problem.residuals = [&](const VectorXd& at) {
    VectorXd out(data + count);
    const std::vector<double> times = iterations_us(rows_, position(at));
    for (Index i = 0; i < data; ++i)
      out(i) = log_error(rows_[static_cast<std::size_t>(i)], times[static_cast<std::size_t>(i)]) / kRowError;
    out.tail(count) = at - known.cwiseQuotient(uncertainty);
    return out;
  };
  problem.jacobian = [&](const VectorXd& at, const VectorXd& /*residuals*/) {
    MatrixXd out(data + count, count);
    out.topRows(data) = derivatives(rows_, position(at)) / kRowError;
    out.bottomRows(count).setIdentity();
    return out;
  };
  return position(minimize(problem, start.cwiseQuotient(uncertainty)).at);
}

VectorXd Fit::minimum() const {
  const auto cost = [&](const VectorXd& at) {
    const std::vector<double> times = iterations_us(rows_, at);
    double out = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const double error = log_error(rows_[i], times[i]) / kRowError;
      out += error * error;
    }
    for (std::size_t k = 0; k < numbers_.size(); ++k) {
      const double off = (at(index(k)) - numbers_[k].start) / numbers_[k].uncertainty;
      out += off * off;
    }
    return out;
  };
  VectorXd best;
  double best_cost = 0;
  for (const double slower : {0.0, 1.0}) {
    VectorXd start = known();
    for (std::size_t k = 0; k < numbers_.size(); ++k)
      if (numbers_[k].quantity == FittedQuantity::per_byte) start(index(k)) += slower;
    VectorXd found = minimum(start);
    const double its_cost = cost(found);
    if (best.size() == 0 || its_cost < best_cost) {
      best = std::move(found);
      best_cost = its_cost;
    }
  }
  return best;
}

FitResult Fit::result(const VectorXd& at) const {
  FitResult out;
  out.at = at;
  out.derivatives = derivatives(rows_, at) / kRowError;
  const MatrixXd information = out.derivatives.transpose() * out.derivatives;
  const auto count = index(numbers_.size());
  out.covariance = (information + MatrixXd::Identity(count, count)).inverse();
  out.learned = VectorXd::Ones(count) - out.covariance.diagonal();
  out.response = information.diagonal().cwiseSqrt();
  const std::vector<double> times = iterations_us(rows_, at);
  double squares = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const double error = log_error(rows_[i], times[i]) / kRowError;
    squares += error * error;
  }
  // kRowError counts as much as two more rows would.
  constexpr double kPriorFreedom = 2;
  const double freedom = std::max(0.0, static_cast<double>(rows_.size()) - out.learned.sum());
  out.freedom = freedom + kPriorFreedom;
  out.scale = std::sqrt((squares + kPriorFreedom) / out.freedom);
  return out;
}

}  // namespace validate
