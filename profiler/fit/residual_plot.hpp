// Plots the error of each model of each curve, size by size, as SVG.

#pragma once

#include <string>

#include "profiler/fit/report.hpp"

namespace fit {

/// One panel per curve: line and segments on the sizes of their fit, the curve on other sizes.
std::string residual_plot(const Report& report);

}  // namespace fit
