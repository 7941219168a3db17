// Whether the machine was left alone while a plan was run.

#pragma once

#include <string>
#include <vector>

#include "validate/live/run.hpp"

namespace suite {

/// Why nothing may be concluded from the run; none: it was quiet. Judged by the fixed loop that rank 0 timed
/// before each iteration, by how iterations spread and drift, and by what processors did for others.
std::vector<std::string> noise_of(const live::Record& record);

/// Of each iteration, the longest that any worker took.
std::vector<double> lengths_us(const live::Record& record);

}  // namespace suite
