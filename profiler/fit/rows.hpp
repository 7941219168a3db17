// The rows of a fit: t = startups * alpha + bytes sent * beta, each weighted by 1/t^2, so that the sum of
// squared relative errors is minimal and a few large messages do not dominate the small ones.

#pragma once

#include <optional>
#include <vector>

namespace fit {

struct Row {
  double bytes = 0;     ///< the message's size: segments are cut between sizes
  double startups = 1;  ///< how often alpha is paid; 1 if a curve is fitted by itself
  double sent = 0;      ///< bytes that pay beta; the size itself if a curve is fitted by itself
  double us = 0;
};

struct Line {
  double alpha_us = 0;
  double beta_us_per_byte = 0;

  double us(const Row& row) const { return row.startups * alpha_us + row.sent * beta_us_per_byte; }
};

struct Solution {
  Line line;
  /// Standard errors from the residuals; absent without degrees of freedom.
  std::optional<Line> error;
};

/// Weighted least squares. Beta is at least 0, because no message gets faster by being longer. With
/// `physical`, alpha is at least 0 too. Needs at least one row.
Solution solve(const std::vector<Row>& rows, bool physical);

}  // namespace fit
