// Predicts the iteration times of measured rows from the numbers of models and networks, with the simulator's
// own models of an iteration.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "validate/measurements/measurements.hpp"
#include "validate/measurements/numbers.hpp"

namespace validate {

/// The numbers of all models and networks, by index in Predictor::models() and networks().
struct Numbers {
  std::vector<ModelNumbers> models;
  std::vector<NetworkNumbers> networks;
};

/// Rows that differ only in what was measured are one configuration, simulated once. Refers to the set-up,
/// which must outlive it.
class Predictor {
 public:
  /// Throws InputError if a row of `source` has a name that the set-up does not know.
  Predictor(const std::vector<Measurement>& rows, const Setup& setup, const std::string& source);

  struct Configuration {
    Measurement row;  ///< the first one
    std::size_t model = 0;
    std::size_t network = 0;
    planner::Schedule schedule;
    planner::Algorithm all_reduce;
  };

  /// Names in the order of the alphabet.
  const std::vector<std::string>& models() const { return models_; }
  const std::vector<std::string>& networks() const { return networks_; }
  const core::Profile& profile(std::size_t model) const { return setup_.models.at(models_[model]).profile; }
  const core::Network& network(std::size_t index) const { return setup_.networks.at(networks_[index]); }
  /// The slow-down that a profile states; it counts instead of the network's.
  const std::optional<core::ProfileOverlap>& overlap(std::size_t model) const {
    return setup_.models.at(models_[model]).overlap;
  }

  const std::vector<Configuration>& configurations() const { return configurations_; }
  std::size_t configuration_of(std::size_t row) const { return of_row_[row]; }
  /// Microseconds of an iteration as measured.
  double measured_us(std::size_t row) const { return measured_us_[row]; }

  /// What files say: every factor is 1.
  Numbers known() const;

  core::Profile calibrated_profile(std::size_t model, const ModelNumbers& numbers) const {
    return calibrated(profile(model), numbers);
  }
  core::Network calibrated_network(std::size_t network, const NetworkNumbers& numbers) const {
    return calibrated(this->network(network), numbers);
  }

  /// The iteration time with a calibrated profile and network; `numbers` gives what these files cannot hold.
  double iteration_us(std::size_t configuration, const core::Profile& profile, const core::Network& network,
                      const NetworkNumbers& numbers) const;

 private:
  planner::Schedule schedule(const Measurement& row) const;
  [[noreturn]] void expected(const Measurement& row, std::string_view what, std::string_view got) const;

  const Setup& setup_;
  std::string source_;
  std::vector<std::string> models_;
  std::vector<std::string> networks_;
  std::vector<Configuration> configurations_;
  std::vector<std::size_t> of_row_;
  std::vector<double> measured_us_;
};

}  // namespace validate
