// How far each description of each curve is off, size by size, as SVG.

#pragma once

#include <string>

#include "profiler/fit/report.hpp"

namespace fit {

/// A panel a curve: the line and the segments on the sizes they were made from, the curve on sizes it was
/// not.
std::string residual_plot(const Report& report);

}  // namespace fit
