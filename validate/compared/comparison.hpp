// Two iterations side by side: predicted and measured, or before and after a change.

#pragma once

#include <string>
#include <vector>

#include "validate/compared/iteration.hpp"

namespace compared {

/// A part of the iteration that takes another time on the second side. All differences add up to that of the
/// iterations.
struct Difference {
  std::string what;
  double first_us = 0;
  double second_us = 0;
  double difference_us() const { return second_us - first_us; }
};

struct Comparison {
  std::string first_name;   ///< "predicted" or "before"
  std::string second_name;  ///< "measured" or "after"
  Iteration first;
  Iteration second;
  bool same_buckets = false;            ///< same collectives of the same sizes in the same order
  std::vector<Difference> differences;  ///< the largest first
  std::vector<std::string> warnings;
};

/// The n-th collective of one side is compared with the n-th of the other.
Comparison compare(std::string first_name, Iteration first, std::string second_name, Iteration second);

std::string comparison_text(const Comparison& comparison, std::size_t width = 0);

/// `fusewise.comparison` (fusewise schema comparison).
std::string comparison_json(const Comparison& comparison);

}  // namespace compared
