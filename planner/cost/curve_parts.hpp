// Curves of costs that are made of other curves, and the sizes and startups that are read off these for it.

#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/network.hpp"

namespace planner {

using CurvePoints = std::vector<std::pair<double, double>>;

/// The sizes at which a curve bends, in increasing order.
std::vector<double> sizes_of(const core::CostCurve& curve);

/// The curve through the values of `us` at these sizes. It does not fall, since nothing gets faster by being
/// longer: a size that took longer than a larger one gets the time of that one.
core::CostCurve sampled_at(const std::vector<double>& sizes, const std::function<double(double)>& us);

/// Two measurements of one size seldom differ by more than this factor.
constexpr double kMaxNoise = 1.3;

/// Sizes between two others at which messages take far longer than larger ones do, and how many times as
/// long at most. The height of a peak is no less noisy than other times.
struct Peak {
  double from_bytes = 0;
  double to_bytes = 0;
  double factor = 1;
  double with_noise() const { return kMaxNoise * factor; }
};

/// The peaks that sampled_at() cuts off.
std::vector<Peak> peaks_of(const std::vector<double>& sizes, const std::function<double(double)>& us);

/// What a warning says of a peak in a curve whose times may be longer by `high_factor` elsewhere.
std::string text_of(const Peak& peak, double high_factor);

/// The factor of the peak in which a size lies, with its noise; 1 if there is none.
double peak_factor(const std::vector<Peak>& peaks, double bytes);

/// The larger of the curve and a line through 0, with the sizes where they cross.
core::CostCurve larger(const core::CostCurve& curve, double us_per_byte);

/// y = fixed + each * x.
struct RisingLine {
  double fixed = 0;
  double each = 0;
  double at(double x) const { return fixed + each * x; }
};

/// The line with neither part below 0, by least squares of relative errors. Needs values above 0.
RisingLine rising_line(const CurvePoints& points);

/// The startup that a curve's small messages show; 0 if the smallest one measured is not small enough. From
/// several sizes, as a single one is noisy.
double startup_of(const core::CostCurve& curve);

}  // namespace planner
