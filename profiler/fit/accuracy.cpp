#include "profiler/fit/accuracy.hpp"

#include <algorithm>
#include <cmath>

namespace fit {

std::vector<Residual> Accuracy::worst(std::size_t count) const {
  std::vector<Residual> out = residuals;
  std::ranges::stable_sort(
      out, [](const Residual& a, const Residual& b) { return std::abs(a.error()) > std::abs(b.error()); });
  out.resize(std::min(count, out.size()));
  return out;
}

Accuracy accuracy(const Points& points, const Model& model) {
  Accuracy out;
  out.residuals.reserve(points.size());
  for (const auto& [bytes, us] : points) {
    out.residuals.push_back({.bytes = bytes, .us = us, .predicted_us = model(bytes)});
    const double error = std::abs(out.residuals.back().error());
    out.mean_relative_error += error / static_cast<double>(points.size());
    out.max_relative_error = std::max(out.max_relative_error, error);
  }
  return out;
}

Split by_powers_of_two(const Points& points) {
  Split out;
  for (const auto& point : points) {
    int exponent = 0;
    const bool power = std::frexp(point.first, &exponent) == 0.5;
    (power ? out.fitted : out.tested).push_back(point);
  }
  return out;
}

Split by_turns(const Points& points) {
  Split out;
  for (std::size_t i = 0; i < points.size(); ++i)
    (i % 2 == 0 || i + 1 == points.size() ? out.fitted : out.tested).push_back(points[i]);
  return out;
}

}  // namespace fit
