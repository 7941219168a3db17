// How a figure of ours is held against the published one.

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

/// A way to judge, and what it needs of a figure.
struct Judge {
  std::string_view name;
  std::string_view summary;
  Judgement (*judge)(const Figure& figure, const Values& ours);
  /// What Published must hold.
  enum class Needs { nothing, value, range, between, order, holds } needs = Needs::nothing;
  bool takes_within = false;
  bool is_scored = false;
  bool claims = true;  ///< false: only shown
};

std::span<const Judge> judges();

/// How far a stated bar or the end of a range may be missed: so many times as large or as small.
constexpr double kNear = 1.25;
/// A gain, what a speed-up is above 1, of less than this share of the published one (or more than its
/// inverse) is another result, however near 1 both are.
constexpr double kGainShare = 0.5;

/// What an input was fitted to it must meet.
constexpr double kCalibrated = 0.01;

struct Outcome {
  Verdict verdict = Verdict::shown;
  std::optional<double> error;
  std::string fault;  ///< what makes the whole validation fail, if something does
};

/// `calibrated`: an input was fitted to this figure.
Outcome judge(const Figure& figure, const Values& ours, bool calibrated);

}  // namespace validate
