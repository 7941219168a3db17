// What lies under the collectives: alpha and beta of a message between two workers, from curves of several
// numbers of workers and the closed forms of the algorithms, and from them what other numbers of workers
// would take.

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

/// A range of sizes and the algorithm and link that describe it on all numbers of workers.
struct Range {
  double from_bytes = 0;
  double to_bytes = 0;
  std::string algorithm;
  Line link;
};

/// How much longer (or, below 1, shorter) than predicted a measurement was, over numbers of workers that were
/// left out one at a time: nine in ten lie between.
struct Spread {
  double min = 1;
  double max = 1;
  double mean_relative_error = 0;
  double max_relative_error = 0;
};

struct LinkFit {
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  std::vector<std::int64_t> workers;
  std::optional<std::string> measured_algorithm;  ///< as the log says it
  std::string algorithm;  ///< of the link below: the one that suits all sizes best, or the one asked for
  Solution link;          ///< one alpha and beta for all sizes
  double mean_relative_error = 0;
  double max_relative_error = 0;
  std::vector<Range> ranges;
  double ranges_mean_relative_error = 0;
  double ranges_max_relative_error = 0;
  double min_bytes = 0;
  double max_bytes = 0;
  std::optional<Spread> left_out;  ///< of the ranges; from two numbers of workers on

  /// By the ranges.
  double us(std::int64_t on_workers, double bytes) const;
};

/// Of all-reduce, that a link may lie under.
std::span<const std::string_view> link_algorithms();

/// All series of one collective on two workers or more; `algorithm` is a name or empty: whichever fits best.
/// Only ring is known for reduce_scatter and all_gather.
LinkFit fit_link(const std::vector<traces::Series>& series, const std::string& algorithm,
                 const SegmentOptions& options);

/// The ranges on so many workers, as a network file takes them.
core::CostCurve curve_of(const LinkFit& fit, std::int64_t workers);

}  // namespace fit
