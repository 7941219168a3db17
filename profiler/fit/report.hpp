// The results of `fusewise fit`, and the network that it writes.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/network.hpp"
#include "profiler/fit/curve_fit.hpp"
#include "profiler/fit/point_to_point.hpp"
#include "profiler/traces/import.hpp"

namespace fit {

struct Options {
  std::string name;
  std::optional<double> line_rate_gbps;
  Test test = Test::by_turns;
  SegmentOptions segments;
  std::string algorithm;              ///< of all-reduce; empty: the best fit
  std::vector<std::int64_t> predict;  ///< numbers of workers
  bool write_segments = false;        ///< writes segments into the network instead of the measured points
};

struct PredictedTime {
  double bytes = 0;
  double us = 0;
  std::optional<std::pair<double, double>> between_us;  ///< range in which nine in ten are expected
};

struct Prediction {
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  std::int64_t workers = 0;
  std::vector<PredictedTime> times;
  std::vector<std::string> warnings;
};

struct Report {
  std::vector<CurveFit> curves;
  std::vector<LinkFit> links;  ///< one for each collective
  std::vector<Prediction> predictions;
  std::vector<std::string> warnings;
  core::Network network;
};

/// Throws InputError if there are too few measurements for a fit.
Report fit(const traces::Measurements& measurements, const Options& options);

/// Returns warnings: slopes under the physical bound, an R^2 that hides small sizes, extrapolation.
std::vector<std::string> warnings(const Report& report);

/// "64 KiB", "12.5 MiB", "1000 B"
std::string size_text(double bytes);

std::string report_table(const Report& report);
std::string report_json(const Report& report);

}  // namespace fit
