// Compares a recorded run with its prediction.

#pragma once

#include <string>
#include <vector>

#include "core/field.hpp"
#include "validate/live/run.hpp"

namespace live {

/// The median of at least one value and its 95 % confidence interval by order statistics; with fewer than six
/// values the interval is their full range.
struct Median {
  double value = 0;
  double min = 0;
  double max = 0;
};
Median median_of(std::vector<double> values);

/// Requires at least one recorded iteration on every worker.
Comparison compare(const RunSpec& spec, const core::Profile& profile, const Prediction& prediction,
                   const Record& record);

/// The absolute error of the iteration.
double error_of(const Comparison& comparison);

/// The iteration, then of each quantity of a worker that is not always 0 the one with the greatest error.
std::vector<Compared> greatest_errors(const Comparison& comparison);

/// A collective of one worker, predicted and measured.
struct ComparedCollective {
  std::string name;
  Compared start;
  Compared end;
};
/// Those of the first worker, in the order of the prediction.
std::vector<ComparedCollective> collectives_of_first(const Comparison& comparison);

/// A table with one line for the iteration and each quantity, for the worker with the greatest error, and for
/// the collective with the greatest error.
std::string comparison_table(const Comparison& comparison);
std::string comparisons_json(const std::vector<Comparison>& comparisons, const std::string& where);
/// Reads what comparisons_json() has written. Throws InputError.
std::vector<Comparison> read_comparisons(const core::Field& file);

/// A predicted and a measured iteration of each worker, one above the other; the measured one has median
/// length.
struct Shown {
  std::string name;
  const core::Profile* profile = nullptr;
  const Prediction* prediction = nullptr;
  const Record* record = nullptr;
};
std::string timeline(const std::vector<Shown>& all);

}  // namespace live
