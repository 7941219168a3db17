// Holds what was recorded against what was predicted.

#pragma once

#include <string>
#include <vector>

#include "validate/live/run.hpp"

namespace live {

/// The median of at least one value, and the 95 % interval of the median by order statistics: of fewer than
/// six values all of them.
struct Median {
  double value = 0;
  double min = 0;
  double max = 0;
};
Median median_of(std::vector<double> values);

/// Asks for at least one recorded iteration on every worker.
Comparison compare(const RunSpec& spec, const core::Profile& profile, const Prediction& prediction,
                   const Record& record);

/// How far the iteration is off, never negative.
double error_of(const Comparison& comparison);

/// A line for the iteration and each quantity, of the worker that is furthest off, and for the collective
/// that is.
std::string comparison_table(const Comparison& comparison);
std::string comparisons_json(const std::vector<Comparison>& comparisons, const std::string& where);

/// A predicted and a measured iteration of each worker, one above the other: the one of median length.
struct Shown {
  std::string name;
  const core::Profile* profile = nullptr;
  const Prediction* prediction = nullptr;
  const Record* record = nullptr;
};
std::string timeline(const std::vector<Shown>& all);

}  // namespace live
