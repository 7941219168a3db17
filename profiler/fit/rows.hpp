// What a fit sees of a measurement: t = startups * alpha + bytes sent * beta, each row weighted by 1/t^2, so
// that the sum of squared relative errors is least and a few large messages do not decide what small ones
// cost.

#pragma once

#include <optional>
#include <vector>

namespace fit {

struct Row {
  double bytes = 0;     ///< the message's size: cuts go between sizes
  double startups = 1;  ///< how often alpha is paid; 1 where a curve is fitted for itself
  double sent = 0;      ///< how many bytes are paid beta for; then the size itself
  double us = 0;
};

struct Line {
  double alpha_us = 0;
  double beta_us_per_byte = 0;

  double us(const Row& row) const { return row.startups * alpha_us + row.sent * beta_us_per_byte; }
};

struct Solution {
  Line line;
  /// Standard errors, from the scatter about the line; absent where nothing is left over to scatter.
  std::optional<Line> error;
};

/// Weighted least squares. Beta is 0 where it would come out below: no message gets faster by being longer.
/// With `physical` alpha is not below 0 either. One row at least.
Solution solve(const std::vector<Row>& rows, bool physical);

}  // namespace fit
