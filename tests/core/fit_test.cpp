// The line through measured times: exact if the points lie on a line, and fair to small messages if not.

#include "core/line_fit.hpp"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

namespace core {
namespace {

using Points = std::vector<std::pair<double, double>>;

/// The quantity that fit_line minimizes.
double squared_relative_errors(const Points& points, double startup, double slope) {
  double sum = 0;
  for (const auto& [bytes, us] : points) sum += std::pow((startup + slope * bytes - us) / us, 2);
  return sum;
}

TEST_CASE("fit: points on a line give the line") {
  const LineFit line = fit_line({{0, 100}, {1 << 10, 102.048}, {1 << 20, 2197.152}, {1 << 30, 2147583.648}});
  CHECK(line.startup_us == doctest::Approx(100).epsilon(1e-12));
  CHECK(line.us_per_byte == doctest::Approx(0.002).epsilon(1e-12));
  CHECK(line.r2 == doctest::Approx(1));
  CHECK(line.max_relative_error < 1e-9);
  CHECK(line.us(500) == doctest::Approx(101));
}

TEST_CASE("fit: two points are enough") {
  const LineFit line = fit_line({{8, 3}, {16, 5}});
  CHECK(line.startup_us == doctest::Approx(1));
  CHECK(line.us_per_byte == doctest::Approx(0.25));
}

TEST_CASE("fit: worked by hand, three points off the line") {
  // Weights 1, 1/4, 1/16; the normal equations, times 16: 21 a + 6 b = 28 and 6 a + 8 b = 16.
  const LineFit line = fit_line({{0, 1}, {1, 2}, {2, 4}});
  CHECK(line.startup_us == doctest::Approx(128.0 / 132));
  CHECK(line.us_per_byte == doctest::Approx(168.0 / 132));
  const double errors[] = {4.0 / 132, 32.0 / 132 / 2, 64.0 / 132 / 4};
  CHECK(line.mean_relative_error == doctest::Approx((errors[0] + errors[1] + errors[2]) / 3));
  CHECK(line.max_relative_error == doctest::Approx(errors[1]));
  // Unweighted R^2: mean 7/3, total 14/3, unexplained (16 + 1024 + 4096) / 132^2.
  CHECK(line.r2 == doctest::Approx(1 - 5136.0 / (132 * 132) / (14.0 / 3)));
}

TEST_CASE("fit: a single large message cannot decide what small ones cost") {
  const LineFit line = fit_line({{0, 10}, {1000, 11}, {2000, 12}, {1e9, 3e6}});
  CHECK(line.startup_us == doctest::Approx(10).epsilon(0.2));
  CHECK(line.max_relative_error < 0.2);
}

TEST_CASE("fit: equal times are a constant that is wholly explained") {
  const LineFit line = fit_line({{1, 5}, {2, 5}, {3, 5}});
  CHECK(line.startup_us == doctest::Approx(5));
  CHECK(std::abs(line.us_per_byte) < 1e-12);
  CHECK(line.r2 == 1);
}

TEST_CASE("fit: no line nearby has smaller squared relative errors") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> noise(0.5, 2);
    Points points;
    double bytes = 0;
    for (int i = 0; i < 20; ++i) {
      bytes += 1000 * noise(random);
      points.emplace_back(bytes, 50 + 0.01 * bytes * noise(random));
    }
    const LineFit line = fit_line(points);
    const double min = squared_relative_errors(points, line.startup_us, line.us_per_byte);
    for (const double da : {-0.1, 0.0, 0.1})
      for (const double db : {-1e-5, 0.0, 1e-5})
        CHECK(min <= squared_relative_errors(points, line.startup_us + da, line.us_per_byte + db) + 1e-12);
    CHECK(line.mean_relative_error <= line.max_relative_error);
    CHECK(line.r2 <= 1);
  }
}

TEST_CASE("fit: from bytes to gigabytes the system stays well conditioned") {
  Points points;
  for (int i = 2; i < 53; ++i) points.emplace_back(std::ldexp(1, i), 20 + std::ldexp(1e-5, i));
  const LineFit line = fit_line(points);
  CHECK(line.startup_us == doctest::Approx(20).epsilon(1e-9));
  CHECK(line.us_per_byte == doctest::Approx(1e-5).epsilon(1e-9));
}

}  // namespace
}  // namespace core
