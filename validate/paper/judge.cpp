#include "validate/paper/judge.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace validate {
namespace {

double relative(double ours, double published) {
  return published == 0 ? (ours == 0 ? 0 : 1) : std::abs(ours - published) / std::abs(published);
}

/// Returns the error of the case with the largest error.
double worst(const Values& ours, double published) {
  double out = 0;
  for (const Value& each : ours) out = std::max(out, relative(each.value, published));
  return out;
}

bool is_gain(const Figure& figure) { return figure.unit == "x"; }

/// Returns whether ours is within a factor of kNear and, for a gain, on the same side of 1 and of similar
/// size.
bool is_near(const Figure& figure, double ours, double published) {
  if (published <= 0 || ours <= 0) return ours == published;
  const double ratio = ours / published;
  if (ratio > kNear || ratio < 1 / kNear) return false;
  if (!is_gain(figure) || published == 1) return true;
  const double share = (ours - 1) / (published - 1);
  return share >= kGainShare && share <= 1 / kGainShare;
}

Judgement exact(const Figure& figure, const Values& ours) {
  const double unit = std::pow(10.0, -figure.decimals);
  const bool same = std::ranges::all_of(ours, [&](const Value& each) {
    return std::abs(std::round(each.value / unit) * unit - *figure.published.value) < unit / 4;
  });
  return {.met = same, .error = worst(ours, *figure.published.value)};
}

Judgement near(const Figure& figure, const Values& ours) {
  const double error = worst(ours, *figure.published.value);
  return {.met = error <= *figure.within, .error = error};
}

/// If our value is known as an interval only, the end nearest to the published value counts.
Judgement scored(const Figure& figure, const Values& ours) {
  const double value = *figure.published.value;
  return {.met = true, .error = relative(std::clamp(value, min(ours), max(ours)), value)};
}

/// Our value is known as an interval only, because one of its inputs is; the error is the distance of the
/// published value from it.
Judgement interval(const Figure& figure, const Values& ours) {
  const double value = *figure.published.value;
  const double nearest = std::clamp(value, min(ours), max(ours));
  return {.met = nearest == value, .error = relative(nearest, value)};
}

Judgement bar(const Figure& figure, const Values& ours) {
  const double value = *figure.published.value;
  return {
      .met = std::ranges::all_of(ours, [&](const Value& each) { return is_near(figure, each.value, value); }),
      .error = worst(ours, value)};
}

/// Every case must be on the right side of 1, and the ends of our range near the stated ends.
Judgement range(const Figure& figure, const Values& ours) {
  const Published& published = figure.published;
  Judgement out = {.met = true, .error = 0.0};
  const auto end = [&](double mine, double theirs) {
    out.met = out.met && is_near(figure, mine, theirs);
    out.error = std::max(*out.error, relative(mine, theirs));
  };
  if (published.min) end(min(ours), *published.min);
  if (published.max) end(max(ours), *published.max);
  const bool all_gain = published.min.value_or(1) >= 1 && published.max.value_or(2) > 1;
  if (is_gain(figure) && all_gain) out.met = out.met && min(ours) > 1;
  return out;
}

/// Every case must be beyond the stated end.
Judgement bound(const Figure& figure, const Values& ours) {
  const Published& published = figure.published;
  return {
      .met = (!published.min || min(ours) > *published.min) && (!published.max || max(ours) < *published.max),
      .error = {}};
}

Judgement order(const Figure& figure, const Values& ours) {
  Values sorted = ours;
  std::ranges::stable_sort(sorted, [&](const Value& a, const Value& b) {
    return figure.max_is_best ? a.value > b.value : a.value < b.value;
  });
  const auto& published = figure.published.order;
  bool same = sorted.size() == published.size();
  for (std::size_t i = 0; same && i < sorted.size(); ++i)
    same = sorted[i].label == published[i] && (i == 0 || sorted[i].value != sorted[i - 1].value);
  return {.met = same, .error = {}};
}

Judgement crossing(const Figure& figure, const Values& ours) {
  const auto& between = *figure.published.between;
  return {.met = ours.size() == 2 && ours[0].value == between.first && ours[1].value == between.second,
          .error = {}};
}

Judgement holds(const Figure& figure, const Values& ours) {
  return {.met = std::ranges::all_of(
              ours, [&](const Value& each) { return (each.value != 0) == *figure.published.holds; }),
          .error = {}};
}

Judgement shown(const Figure& figure, const Values& ours) {
  if (!figure.published.value || ours.size() != 1) return {.met = true, .error = {}};
  return {.met = true, .error = relative(ours.front().value, *figure.published.value)};
}

using Needs = Judge::Needs;

constexpr std::array<Judge, 11> kJudges = {{
    {.name = "exact", .summary = "all printed digits", .judge = exact, .needs = Needs::value},
    {.name = "near",
     .summary = "a relative error of at most `within`",
     .judge = near,
     .needs = Needs::value,
     .takes_within = true},
    {.name = "scored",
     .summary = "a relative error that is part of the mean of `score`",
     .judge = scored,
     .needs = Needs::value,
     .is_scored = true},
    {.name = "interval",
     .summary = "inside ours, which is an interval",
     .judge = interval,
     .needs = Needs::value},
    {.name = "bar",
     .summary = "right sign, within 1.25x, gain within 2x",
     .judge = bar,
     .needs = Needs::value},
    {.name = "range", .summary = "each end like a bar", .judge = range, .needs = Needs::range},
    {.name = "bound", .summary = "all of ours beyond the end", .judge = bound, .needs = Needs::range},
    {.name = "order", .summary = "the same order", .judge = order, .needs = Needs::order},
    {.name = "crossing", .summary = "between the same two", .judge = crossing, .needs = Needs::between},
    {.name = "holds", .summary = "a property", .judge = holds, .needs = Needs::holds},
    {.name = "shown", .summary = "nothing is claimed", .judge = shown, .claims = false},
}};

}  // namespace

std::span<const Judge> judges() { return kJudges; }

std::string_view name(Verdict verdict) {
  constexpr std::array<std::string_view, 5> kNames = {"reproduced", "scored", "calibrated", "shown",
                                                      "not reproduced"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

Outcome judge(const Figure& figure, const Values& ours, bool calibrated) {
  const bool has_reason = !figure.reason.empty();
  Judgement judgement = ours.empty() ? Judgement{} : figure.judge->judge(figure, ours);
  if (calibrated && !(judgement.error && *judgement.error <= kCalibrated)) judgement.met = false;
  Outcome out = {.verdict = Verdict::reproduced, .error = judgement.error, .fault = {}};
  if (!judgement.met) {
    out.verdict = Verdict::not_reproduced;
    if (!has_reason) out.fault = "is not reproduced, and its file does not say why";
    return out;
  }
  if (has_reason) out.fault = "is met, although its file says why it is not";
  if (!figure.judge->claims)
    out.verdict = Verdict::shown;
  else if (calibrated)
    out.verdict = Verdict::calibrated;
  else if (figure.judge->is_scored)
    out.verdict = Verdict::scored;
  return out;
}

}  // namespace validate
