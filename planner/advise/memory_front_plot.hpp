// The plot of a front of memory against time.

#pragma once

#include <string>

#include "planner/advise/memory_front.hpp"

namespace planner {

/// An SVG document: iteration time over memory, and below it what no plan beats.
std::string memory_front_plot(const MemoryFront& front);

}  // namespace planner
