#include "planner/cost/curve_parts.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace planner {

using core::CostCurve;

std::vector<double> sizes_of(const CostCurve& curve) {
  constexpr double kJustBelow = 1 - 1e-9;
  std::vector<double> out;
  out.reserve(curve.points().size());
  for (const auto& [bytes, us] : curve.points()) out.push_back(bytes);
  if (curve.segments().empty()) return out;
  for (const CostCurve::Segment& segment : curve.segments()) {
    out.push_back(segment.from_bytes);
    out.push_back(segment.to_bytes * kJustBelow);
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

CostCurve sampled_at(const std::vector<double>& sizes, const std::function<double(double)>& us) {
  CurvePoints points;
  for (const double bytes : sizes) points.emplace_back(bytes, us(bytes));
  for (std::size_t i = points.size() - 1; i-- > 0;)
    points[i].second = std::min(points[i].second, points[i + 1].second);
  return CostCurve::through(points);
}

std::vector<Peak> peaks_of(const std::vector<double>& sizes, const std::function<double(double)>& us) {
  std::vector<Peak> out;
  double least = std::numeric_limits<double>::infinity();
  bool is_in_peak = false;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const double here = us(sizes[i]);
    const bool was_in_peak = std::exchange(is_in_peak, here > kMaxNoise * least && least > 0);
    if (is_in_peak && !was_in_peak) out.push_back({.to_bytes = sizes[i + 1]});
    if (is_in_peak) {
      out.back().from_bytes = i > 0 ? sizes[i - 1] : 0;
      out.back().factor = std::max(out.back().factor, here / least);
    }
    least = std::min(least, here);
  }
  std::ranges::reverse(out);
  return out;
}

std::string text_of(const Peak& peak, double high_factor) {
  return fmt::format(
      "from {:.0f} to {:.0f} bytes the curves that it is derived from fall by up to a factor of "
      "{:.2f}; the shorter times are taken, and there up to {:.2f} of them is expected",
      peak.from_bytes, peak.to_bytes, peak.factor, high_factor * peak.with_noise());
}

double peak_factor(const std::vector<Peak>& peaks, double bytes) {
  double out = 1;
  for (const Peak& peak : peaks)
    if (bytes > peak.from_bytes && bytes < peak.to_bytes) out = std::max(out, peak.with_noise());
  return out;
}

CostCurve larger(const CostCurve& curve, double us_per_byte) {
  std::vector<double> sizes = sizes_of(curve);
  const auto above = [&](double bytes) { return curve.us(bytes) - us_per_byte * bytes; };
  // Below the first size the first value holds.
  if (above(sizes.front()) < 0) sizes.insert(sizes.begin(), curve.us(sizes.front()) / us_per_byte);
  // Beyond the last size the line and the last line of the curve may cross in either direction.
  const double last = sizes.back();
  const double far = 2 * last + 1;
  const double slope = (curve.us(far) - curve.us(last)) / (far - last);
  if (slope != us_per_byte) {
    const double cross = std::max(last, (curve.us(last) - slope * last) / (us_per_byte - slope));
    if (cross > last) sizes.push_back(cross);
    if (cross > last || slope < us_per_byte) sizes.push_back(2 * cross + 1);
  }
  std::vector<double> all = sizes;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const double first = above(sizes[i]);
    const double second = above(sizes[i + 1]);
    if ((first < 0) != (second < 0) && first != second)
      all.push_back(sizes[i] + (sizes[i + 1] - sizes[i]) * first / (first - second));
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  CurvePoints points;
  for (const double bytes : all) points.emplace_back(bytes, std::max(curve.us(bytes), us_per_byte * bytes));
  return CostCurve::through(points);
}

RisingLine rising_line(const CurvePoints& points) {
  double ones = 0;
  double ones_x = 0;
  double x_x = 0;
  double fixed = 0;
  double each = 0;
  for (const auto& [x, y] : points) {
    ones += 1 / (y * y);
    ones_x += x / (y * y);
    x_x += x * x / (y * y);
    fixed += 1 / y;
    each += x / y;
  }
  const double determinant = ones * x_x - ones_x * ones_x;
  constexpr double kSingular = 1e-12;
  if (determinant <= kSingular * ones * x_x) return {.fixed = fixed / ones};
  const RisingLine out = {.fixed = (fixed * x_x - each * ones_x) / determinant,
                          .each = (each * ones - fixed * ones_x) / determinant};
  if (out.fixed < 0) return {.each = each / x_x};
  return out.each < 0 ? RisingLine{.fixed = fixed / ones} : out;
}

double startup_of(const CostCurve& curve) {
  constexpr double kMostOfTheTime = 0.9;
  constexpr double kSmall = 8;
  const std::vector<double> sizes = sizes_of(curve);
  if (sizes.size() < 2) return 0;
  CurvePoints small;
  for (const double bytes : sizes) {
    if (small.size() > 1 && bytes > kSmall * sizes.front()) break;
    const double us = curve.us(bytes);
    if (us <= 0) return 0;
    small.emplace_back(bytes, us);
  }
  const RisingLine line = rising_line(small);
  return line.fixed >= kMostOfTheTime * line.at(sizes.front()) ? line.fixed : 0;
}

}  // namespace planner
