// Everything that `fusewise fit` finds out, and the network it makes of it.

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
  std::string algorithm;              ///< of all-reduce; empty: whichever fits best
  std::vector<std::int64_t> predict;  ///< numbers of workers
  bool write_segments = false;        ///< into the network, in place of the measured points
};

struct PredictedTime {
  double bytes = 0;
  double us = 0;
  std::optional<std::pair<double, double>> between_us;  ///< where nine in ten are expected
};

struct Prediction {
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  std::int64_t workers = 0;
  std::vector<PredictedTime> times;
};

struct Report {
  std::vector<CurveFit> curves;
  std::vector<LinkFit> links;  ///< one for each collective
  std::vector<Prediction> predictions;
  std::vector<std::string> warnings;
  core::Network network;
};

/// Throws InputError where there is too little to fit.
Report fit(const traces::Measurements& measurements, const Options& options);

/// What to be careful with: slopes under the physical bound, an R^2 that hides small sizes, extrapolation.
std::vector<std::string> warnings(const Report& report);

/// "64 KiB", "12.5 MiB", "1000 B"
std::string size_text(double bytes);

std::string report_table(const Report& report);
std::string report_json(const Report& report);

}  // namespace fit
