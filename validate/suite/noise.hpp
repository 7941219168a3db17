// Decides whether other load disturbed the machine during a run.

#pragma once

#include <string>
#include <vector>

#include "validate/live/run.hpp"

namespace suite {

/// Returns the reasons why a run cannot be judged; none: the machine was quiet. Based on the fixed loop that
/// rank 0 timed before each iteration, on the spread and drift of iterations, and on processor time used by
/// others.
std::vector<std::string> noise_of(const live::Record& record);

/// Returns the time of each iteration: the maximum over workers.
std::vector<double> lengths_us(const live::Record& record);

}  // namespace suite
