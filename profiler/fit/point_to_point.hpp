// Fits the point-to-point link under collectives: alpha and beta of a message between two workers, from
// curves of several numbers of workers and the closed forms of the algorithms; then predicts other numbers of
// workers.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/fit/segments.hpp"
#include "profiler/traces/import.hpp"

namespace fit {

/// A range of sizes, with the algorithm and the link that describe it on all numbers of workers.
struct Range {
  double from_bytes = 0;
  double to_bytes = 0;
  std::string algorithm;
  Line link;
};

/// The distribution of measured / predicted over numbers of workers that were left out of the fit: nine in
/// ten lie between.
struct Spread {
  double min = 1;
  double max = 1;
  double mean_relative_error = 0;
  double max_relative_error = 0;
  std::size_t parts = 1;  ///< each number of workers was left out once, with all others of its part
};

struct LinkFit {
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  std::vector<std::int64_t> workers;
  std::optional<std::string> measured_algorithm;  ///< as stated in the log
  std::string algorithm;  ///< of the link below: the one that fits all sizes best, or the requested one
  Solution link;          ///< one alpha and beta for all sizes
  double mean_relative_error = 0;
  double max_relative_error = 0;
  std::vector<Range> ranges;
  double ranges_mean_relative_error = 0;
  double ranges_max_relative_error = 0;
  double min_bytes = 0;
  double max_bytes = 0;
  /// The errors of the ranges on numbers of workers that were left out of the fit, which takes at least two.
  /// Each number is left out by itself unless so many fits would take longer than a second.
  std::optional<Spread> left_out;

  /// Predicts with the ranges.
  double us(std::int64_t on_workers, double bytes) const;
};

/// Algorithms of all-reduce that the fit knows.
std::span<const std::string_view> link_algorithms();

/// `series` are all series of one collective on two workers or more; `algorithm` is a name, or empty for the
/// best fit. Only ring is known for reduce_scatter and all_gather. Throws InputError if there are too many
/// different sizes.
LinkFit fit_link(const std::vector<traces::Series>& series, const std::string& algorithm,
                 const SegmentOptions& options);

/// Returns the ranges for this number of workers in the format of a network file.
core::CostCurve curve_of(const LinkFit& fit, std::int64_t workers);

}  // namespace fit
