// Time as a function of bytes: straight pieces, from a closed form (one piece), measured points or segments.

#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace core {

/// Valid from `from_bytes` up to the next piece: value_us + (bytes - from_bytes) * us_per_byte.
struct CostPiece {
  double from_bytes = 0;
  double value_us = 0;
  double us_per_byte = 0;
  bool operator==(const CostPiece&) const = default;
};

/// The first value holds below the first piece; the last piece has no end. Never below 0.
class CostCurve {
 public:
  /// The curve that is zero everywhere.
  CostCurve() = default;
  /// startup + bytes * us_per_byte
  static CostCurve affine(double startup_us, double us_per_byte);
  /// Straight lines between points (bytes strictly increasing, at least one point); one point is a constant.
  static CostCurve through(const std::vector<std::pair<double, double>>& points);
  /// As in a network file: startup + M * us_per_byte for from <= M < to.
  struct Segment {
    double from_bytes = 0;
    double to_bytes = 0;
    double startup_us = 0;
    double us_per_byte = 0;
    bool operator==(const Segment&) const = default;
  };
  static CostCurve of_segments(const std::vector<Segment>& segments);

  double us(double bytes) const;

  /// Returns the maximum cost over all sizes up to this one.
  double max_us(double bytes) const;
  /// The cost of the smallest group: the startup of a closed form, the first value of a curve.
  double startup_us() const;
  /// Returns whether more bytes never cost less; planners may then stop looking at larger groups.
  bool is_monotone() const { return monotone_; }
  /// A lower bound of the time that two separate messages cost more than one merged message, over all sizes;
  /// negative if they may cost less. Rounding error: 1e-13 of the total.
  double saved_by_merging_us() const { return saved_by_merging_us_; }
  /// The largest measured size; infinity for a closed form.
  double measured_up_to_bytes() const { return measured_up_to_bytes_; }

  const std::vector<std::pair<double, double>>& points() const { return points_; }
  const std::vector<Segment>& segments() const { return segments_; }

  bool operator==(const CostCurve&) const = default;

 private:
  explicit CostCurve(std::vector<CostPiece> pieces);

  std::vector<CostPiece> pieces_ = {CostPiece{}};
  bool monotone_ = true;
  double saved_by_merging_us_ = 0;
  double measured_up_to_bytes_ = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, double>> points_;  // as given, to write it out again
  std::vector<Segment> segments_;
};

}  // namespace core
