// The scaling plot: scaling efficiency and iteration time against the number of workers, as SVG.

#pragma once

#include <string>

#include "planner/scenarios/run.hpp"

namespace scenarios {

/// A document of its own, readable in any viewer; every point tells its numbers when pointed at.
std::string scaling_plot(const Results& results);

}  // namespace scenarios
