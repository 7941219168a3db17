#include "core/cost_curve.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace core {
namespace {

double value_at(const CostPiece& piece, double bytes) {
  return piece.value_us + (bytes - piece.from_bytes) * piece.us_per_byte;
}

/// Returns whether no piece falls and none starts below the end of the previous one.
bool never_falls(const std::vector<CostPiece>& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].us_per_byte < 0) return false;
    // Rounding alone may make the value just before a piece's end exceed the next piece's start. That is a
    // fall of the function as computed, and planners rely on the function as computed.
    if (i + 1 < pieces.size() && value_at(pieces[i], pieces[i + 1].from_bytes) > pieces[i + 1].value_us)
      return false;
  }
  return true;
}

/// Merging never loses time if no size costs more per byte than a smaller one.
double saved_by_merging(const std::vector<CostPiece>& pieces) {
  constexpr double kUnknown = -1;
  constexpr double kRounding = 1 + 0x1p-45;
  double min_a_byte = std::numeric_limits<double>::infinity();
  double startup = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const CostPiece& piece = pieces[i];
    startup = value_at(piece, 0);
    const bool costs_more = piece.value_us > min_a_byte * piece.from_bytes * kRounding;
    if (piece.us_per_byte < 0 || startup < 0 || (i > 0 && costs_more)) return kUnknown;
    if (i + 1 == pieces.size()) break;
    const double end = pieces[i + 1].from_bytes;
    min_a_byte = std::min(min_a_byte, value_at(piece, end) / end);
  }
  return pieces.size() == 1 ? startup : 0;
}

}  // namespace

CostCurve::CostCurve(std::vector<CostPiece> pieces)
    : pieces_(std::move(pieces)),
      monotone_(never_falls(pieces_)),
      saved_by_merging_us_(monotone_ ? saved_by_merging(pieces_) : -1) {
  assert(!pieces_.empty());
}

CostCurve CostCurve::affine(double startup_us, double us_per_byte) {
  return CostCurve({{.from_bytes = 0, .value_us = startup_us, .us_per_byte = us_per_byte}});
}

CostCurve CostCurve::through(const std::vector<std::pair<double, double>>& points) {
  assert(!points.empty());
  std::vector<CostPiece> pieces;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [bytes, us] = points[i];
    CostPiece piece = {.from_bytes = bytes, .value_us = us, .us_per_byte = 0};
    if (i + 1 < points.size())
      piece.us_per_byte = (points[i + 1].second - us) / (points[i + 1].first - bytes);
    else if (i > 0)
      piece.us_per_byte = pieces.back().us_per_byte;
    pieces.push_back(piece);
  }
  CostCurve curve(std::move(pieces));
  curve.measured_up_to_bytes_ = points.back().first;
  curve.points_ = points;
  return curve;
}

CostCurve CostCurve::of_segments(const std::vector<Segment>& segments) {
  assert(!segments.empty());
  std::vector<CostPiece> pieces;
  pieces.reserve(segments.size());
  for (const Segment& segment : segments)
    pieces.push_back({.from_bytes = segment.from_bytes,
                      .value_us = segment.startup_us + segment.from_bytes * segment.us_per_byte,
                      .us_per_byte = segment.us_per_byte});
  CostCurve curve(std::move(pieces));
  curve.measured_up_to_bytes_ = std::nextafter(segments.back().to_bytes, 0.0);  // to_bytes itself is excluded
  curve.segments_ = segments;
  return curve;
}

double CostCurve::us(double bytes) const {
  const CostPiece* piece = pieces_.data();
  if (pieces_.size() > 1) {
    const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), bytes,
                                        [](double b, const CostPiece& p) { return b < p.from_bytes; });
    if (after != pieces_.begin()) piece = &*(after - 1);
  }
  return std::max(0.0, value_at(*piece, std::max(bytes, piece->from_bytes)));
}

double CostCurve::max_us(double bytes) const {
  double max = us(bytes);
  for (std::size_t i = 0; i < pieces_.size() && pieces_[i].from_bytes <= bytes; ++i) {
    max = std::max(max, pieces_[i].value_us);
    if (i + 1 < pieces_.size()) max = std::max(max, value_at(pieces_[i], pieces_[i + 1].from_bytes));
  }
  return max;
}

double CostCurve::startup_us() const { return std::max(0.0, pieces_.front().value_us); }

}  // namespace core
