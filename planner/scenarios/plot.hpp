// The scaling plot: scaling efficiency and iteration time over the number of workers, as SVG.

#pragma once

#include <string>

#include "planner/scenarios/run.hpp"

namespace scenarios {

/// A self-contained document for any viewer; every point shows its numbers in a tooltip.
std::string scaling_plot(const Results& results);

}  // namespace scenarios
