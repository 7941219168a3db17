#include "profiler/fit/point_to_point.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/cost/collectives.hpp"

namespace fit {
namespace {

/// If two fit equally well, the first one wins: a binary tree equals recursive doubling with half the alpha
/// and beta.
constexpr std::array<std::string_view, 5> kAlgorithms = {"ring", "recursive_doubling", "halving_doubling",
                                                         "double_binary_tree", "binary_tree"};

/// How often a collective pays alpha, and beta for each byte of the message.
struct Share {
  double startups = 0;
  double sent_per_byte = 0;
};

Share share(core::CollectiveKind collective, std::string_view algorithm, std::int64_t workers) {
  const planner::Fabric fabric = {.workers = workers,
                                  .flat = {.alpha_us = 1, .beta_us_per_byte = 1, .gamma_us_per_byte = 0},
                                  .nodes = {}};
  const planner::ClosedForm form =
      planner::algorithm_entry(algorithm).cost(fabric, {.name = std::string(algorithm)});
  const double halves = collective == core::CollectiveKind::all_reduce ? 1 : 0.5;
  return {halves * form.startup_us, halves * form.link_us_per_byte};
}

using Choices = std::vector<std::string>;

/// A single number of workers cannot distinguish algorithms.
Choices choices_for(core::CollectiveKind collective, const std::string& algorithm, std::size_t counts) {
  if (collective != core::CollectiveKind::all_reduce) return {"ring"};
  if (!algorithm.empty()) return {algorithm};
  if (counts == 1) return {"ring"};
  return {kAlgorithms.begin(), kAlgorithms.end()};
}

std::vector<Row> rows_of(const std::vector<traces::Series>& all, std::string_view algorithm) {
  std::vector<Row> rows;
  for (const traces::Series& series : all) {
    const Share paid = share(series.collective, algorithm, series.workers);
    for (const auto& [bytes, us] : series.points)
      rows.push_back(
          {.bytes = bytes, .startups = paid.startups, .sent = paid.sent_per_byte * bytes, .us = us});
  }
  std::ranges::stable_sort(rows, {}, &Row::bytes);
  return rows;
}

double noise_of(const std::vector<traces::Series>& all) {
  double max = 0;
  for (const traces::Series& series : all) {
    std::vector<Row> rows;
    for (const auto& [bytes, us] : series.points) rows.push_back({.bytes = bytes, .sent = bytes, .us = us});
    max = std::max(max, noise(rows));
  }
  return max;
}

struct Errors {
  double mean = 0;
  double max = 0;
};

Errors errors(const std::vector<Row>& rows, const Line& line) {
  Errors out;
  for (const Row& row : rows) {
    const double error = std::abs(line.us(row) / row.us - 1);
    out.mean += error / static_cast<double>(rows.size());
    out.max = std::max(out.max, error);
  }
  return out;
}

void fit_one_link(LinkFit& out, const Choices& names, const std::vector<std::vector<Row>>& choices) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Solution found = solve(choices[i], true);
    const Errors off = errors(choices[i], found.line);
    if (i > 0 && off.mean >= out.mean_relative_error) continue;
    out.algorithm = names[i];
    out.link = found;
    out.mean_relative_error = off.mean;
    out.max_relative_error = off.max;
  }
}

LinkFit fit_without_test(const std::vector<traces::Series>& all, const std::string& algorithm,
                         const SegmentOptions& options) {
  LinkFit out = {.collective = all.front().collective};
  for (const traces::Series& series : all) out.workers.push_back(series.workers);
  const Choices names = choices_for(out.collective, algorithm, all.size());
  std::vector<std::vector<Row>> choices;
  for (const std::string& name : names) choices.push_back(rows_of(all, name));
  fit_one_link(out, names, choices);
  for (const Segment& segment : find_segments(choices, noise_of(all), options))
    out.ranges.push_back({segment.from_bytes, segment.to_bytes, names[segment.choice], segment.line});
  out.min_bytes = choices.front().front().bytes;
  out.max_bytes = choices.front().back().bytes;
  return out;
}

/// Adds measured / predicted for every point of one number of workers.
void add_ratios(std::vector<double>& ratios, const LinkFit& fit, const traces::Series& series) {
  for (const auto& [bytes, us] : series.points) ratios.push_back(us / fit.us(series.workers, bytes));
}

Spread spread_of(std::vector<double> ratios) {
  Spread out;
  for (const double ratio : ratios) {
    const double error = std::abs(1 / ratio - 1);
    out.mean_relative_error += error / static_cast<double>(ratios.size());
    out.max_relative_error = std::max(out.max_relative_error, error);
  }
  std::ranges::sort(ratios);
  constexpr double kLow = 0.05;
  constexpr double kHigh = 0.95;
  const auto at = [&](double quantile) {
    return ratios[static_cast<std::size_t>(std::lround(quantile * static_cast<double>(ratios.size() - 1)))];
  };
  out.min = at(kLow);
  out.max = at(kHigh);
  return out;
}

/// The number of different sizes. Throws InputError if there are so many that one fit would take longer than
/// a few seconds.
std::size_t checked_sizes(const std::vector<traces::Series>& all) {
  constexpr std::size_t kMax = 10'000;
  std::set<double> sizes;
  for (const traces::Series& series : all)
    for (const auto& [bytes, us] : series.points) sizes.insert(bytes);
  if (sizes.size() > kMax)
    throw core::InputError(fmt::format(
        "{}: /: expected at most {} different sizes of {} on all workers, got {}",
        core::one_line(all.front().path), kMax, core::name(all.front().collective), sizes.size()));
  return sizes.size();
}

/// The number of parts in which numbers of workers are left out: one for each if so many fits take no longer
/// than a second, which is counted, not timed.
std::size_t parts_of(const std::vector<traces::Series>& all, std::size_t sizes, std::size_t choices) {
  constexpr double kWork = 1e8;
  constexpr double kWorkPerRow = 10;
  double rows = 0;
  for (const traces::Series& series : all) rows += static_cast<double>(series.points.size());
  const auto pairs = static_cast<double>(sizes) * static_cast<double>(sizes);
  const double work = static_cast<double>(choices) * (pairs + kWorkPerRow * rows);
  return std::clamp(static_cast<std::size_t>(kWork / work), std::size_t{2}, all.size());
}

/// Predicts the numbers of workers of each part from those of all others.
Spread leave_out_parts(const std::vector<traces::Series>& all, std::size_t parts,
                       const std::string& algorithm, const SegmentOptions& options) {
  std::vector<double> ratios;
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<traces::Series> others;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i % parts != part) others.push_back(all[i]);
    const LinkFit fit = fit_without_test(others, algorithm, options);
    for (std::size_t i = part; i < all.size(); i += parts) add_ratios(ratios, fit, all[i]);
  }
  Spread out = spread_of(std::move(ratios));
  out.parts = parts;
  return out;
}

}  // namespace

double LinkFit::us(std::int64_t on_workers, double bytes) const {
  const Range* range = &ranges.front();
  for (const Range& other : ranges)
    if (bytes >= other.from_bytes) range = &other;
  const Share paid = share(collective, range->algorithm, on_workers);
  constexpr double kMinUs = 1e-6;  // a decreasing startup may become negative when extrapolated
  return std::max(kMinUs, paid.startups * range->link.alpha_us +
                              paid.sent_per_byte * bytes * range->link.beta_us_per_byte);
}

std::span<const std::string_view> link_algorithms() { return kAlgorithms; }

LinkFit fit_link(const std::vector<traces::Series>& series, const std::string& algorithm,
                 const SegmentOptions& options) {
  const std::size_t sizes = checked_sizes(series);
  LinkFit out = fit_without_test(series, algorithm, options);
  std::vector<double> ratios;
  for (const traces::Series& one : series) add_ratios(ratios, out, one);
  const Spread own = spread_of(ratios);
  out.ranges_mean_relative_error = own.mean_relative_error;
  out.ranges_max_relative_error = own.max_relative_error;
  const bool leaves_one = series.size() == 2 && algorithm.empty();
  if (series.size() < 2) return out;
  const std::string& tested = leaves_one ? out.algorithm : algorithm;
  const std::size_t choices = choices_for(out.collective, tested, series.size()).size();
  out.left_out = leave_out_parts(series, parts_of(series, sizes, choices), tested, options);
  return out;
}

core::CostCurve curve_of(const LinkFit& fit, std::int64_t workers) {
  std::vector<core::CostCurve::Segment> segments;
  segments.reserve(fit.ranges.size());
  for (const Range& range : fit.ranges) {
    const Share paid = share(fit.collective, range.algorithm, workers);
    segments.push_back({.from_bytes = range.from_bytes,
                        .to_bytes = range.to_bytes,
                        .startup_us = paid.startups * range.link.alpha_us,
                        .us_per_byte = paid.sent_per_byte * range.link.beta_us_per_byte});
  }
  return core::CostCurve::of_segments(segments);
}

}  // namespace fit
