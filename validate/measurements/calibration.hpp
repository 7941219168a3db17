// What a calibration found: numbers with their intervals, predicted rows and errors.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "validate/measurements/measurements.hpp"
#include "validate/measurements/numbers.hpp"
#include "validate/measurements/predictor.hpp"

namespace validate {

/// Mean and largest relative error of throughputs.
struct Errors {
  std::size_t rows = 0;
  double mean = 0;
  double worst = 0;
  std::string worst_row;  ///< "resnet50, 10gbe, wfbp on 8"

  void add(double error, const std::string& row);
};

/// A 95 % interval.
struct Range {
  double low = 0;
  double high = 0;
};

struct FittedNumber {
  Number number;
  double value = 0;
  Range interval;
  bool at_bound = false;
};

/// A number that stays as the files say, because the rows do not determine it.
struct HeldNumber {
  Number number;
  std::vector<std::string>
      confused_with;   ///< numbers whose effect on these rows is the same; none: no effect
  std::string remedy;  ///< the measurement that would help
};

/// A set of quantities that was tried, with its cross-validated error.
struct Tried {
  std::vector<FittedQuantity> quantities;
  double error = 0;  ///< mean; 0 if the rows are too few
  bool is_chosen = false;
};

/// The errors on rows that were left out of the fit group by group.
struct LeftOut {
  std::string what;  ///< schedule, workers, model or network
  Errors errors;
};

/// A plain way to predict a row.
struct NullErrors {
  std::string name;
  Errors errors;  ///< of the rows that it can predict
  Errors ours;    ///< of the same rows
};

struct CalibratedRow {
  Measurement measured;
  bool is_calibrated_on = false;
  double iteration_us = 0;
  double samples_per_s = 0;
  double measured_samples_per_s = 0;
  double error = 0;                             ///< relative, of the throughput
  std::optional<Range> samples_per_s_interval;  ///< none without calibrated rows of its model and network
};

/// The relative standard deviations of what was fitted for a level of a network.
struct LevelDeviation {
  double startup = 0;
  double per_byte = 0;
};

struct Calibration {
  std::vector<FittedNumber> fitted;
  std::vector<HeldNumber> held;
  std::vector<Tried> tried;  ///< in the order of the search
  std::vector<LeftOut> cross_validation;
  double cross_validated_error = 0;  ///< mean, of the chosen quantities; 0 if the rows are too few
  double widening = 1;  ///< of all intervals, because rows that were left out were further off than stated
  std::vector<CalibratedRow> rows;
  Errors ours;                    ///< of rows that were not calibrated on, of calibrated models and networks
  Errors others;                  ///< of the remaining rows that were not calibrated on
  std::vector<NullErrors> nulls;  ///< the first is the best one
  std::size_t calibrated_rows = 0;
  Numbers numbers;
  double quantile = 0;  ///< how many standard deviations an interval reaches to each side
  std::vector<std::vector<LevelDeviation>> deviations;  ///< of networks in the predictor's order, by level
};

/// "resnet50, 10gbe, wfbp on 8"
std::string description(const Measurement& row);

}  // namespace validate
