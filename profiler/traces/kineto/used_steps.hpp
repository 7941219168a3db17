// Chooses the steps of a trace whose times make the profile: steps that are alike, and stand for all.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

using CallsByStep = std::vector<std::vector<const Call*>>;

/// The calls that ran something or have gradients.
CallsByStep calls_by_step(const Calls& calls);

struct UsedSteps {
  std::vector<std::int32_t> steps;  ///< alike, in their order
  std::size_t with_layers = 0;
  std::size_t alike = 0;                    ///< to these, themselves included
  std::vector<double> lengths_us = {};      ///< of all whole steps of known length
  std::vector<std::int32_t> measured = {};  ///< these steps, in their order
  double used_us = 0;                       ///< the median of those that are used

  double median_us() const;
  /// Whether other steps ran something else, and are more, or take so long that it matters.
  bool differs() const;
};

/// The number of steps after which their lengths repeat within 3 %, while they differ by more than 10 % until
/// then: as in loops of several updates each. 1 if they do not. Lengths of 0 are not known.
std::size_t period_of(const std::vector<double>& lengths_us);

/// Steps whose structure most whole steps share are used. Where none is shared by most, it is the most
/// frequent one of those that take about as long as the median of all whole steps, or else the one that is
/// nearest to it. The lengths are by step, and 0 where they are not known: these steps are left out where
/// lengths vary, as the parts of an iteration are to add up.
UsedSteps choose_steps(const Calls& calls, const std::vector<double>& lengths_us);

double median(std::vector<double> values);
/// Interquartile range; 0 for one value.
double spread(const std::vector<double>& values);

}  // namespace kineto
