// Compares a computed figure with the published one.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "validate/paper/paper.hpp"
#include "validate/paper/values.hpp"

namespace validate {

enum class Verdict {
  reproduced,
  scored,          ///< its error is part of a mean that has a bound
  calibrated,      ///< an input was fitted to it
  shown,           ///< nothing is claimed
  not_reproduced,  ///< for a reason that the paper's file states
};

std::string_view name(Verdict verdict);

struct Judgement {
  bool met = false;
  std::optional<double> error;  ///< relative
};

/// A method of judging, and the published data that it needs.
struct Judge {
  std::string_view name;
  std::string_view summary;
  Judgement (*judge)(const Figure& figure, const Values& ours);
  /// What Published must contain.
  enum class Needs { nothing, value, range, between, order, holds } needs = Needs::nothing;
  bool takes_within = false;
  bool is_scored = false;
  bool claims = true;  ///< false: only shown
};

std::span<const Judge> judges();

/// Tolerance for a stated bar or the end of a range, as a factor in either direction.
constexpr double kNear = 1.25;
/// A gain (speed-up - 1) of less than this share of the published gain (or more than its inverse) is another
/// result, however near 1 both speed-ups are.
constexpr double kGainShare = 0.5;

/// Maximum error of a figure to which an input was fitted.
constexpr double kCalibrated = 0.01;

struct Outcome {
  Verdict verdict = Verdict::shown;
  std::optional<double> error;
  std::string fault;  ///< why the whole validation fails; empty if it does not
};

/// `calibrated`: an input was fitted to this figure.
Outcome judge(const Figure& figure, const Values& ours, bool calibrated);

}  // namespace validate
