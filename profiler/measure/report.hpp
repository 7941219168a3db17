// What was measured, as numbers, as a network, as a table and as CSV.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/measure/run.hpp"
#include "traces/fit.hpp"
#include "traces/network.hpp"

namespace measure {

struct Statistics {
  double median = 0;
  double interquartile = 0;
  double p99 = 0;  ///< of few samples the greatest
  double least = 0;
};

/// Of at least one sample. Between two neighbours a straight line.
Statistics statistics(std::vector<double> samples);

struct About {
  std::string name;    ///< of the network
  std::string source;  ///< where and how, for its origin
  std::optional<double> line_rate_gbps;
};

/// Medians: a curve for each collective that a network file has. send_receive, on two sizes or more, gives
/// the link. Without either, a WorldError.
traces::Network network(const std::vector<Samples>& samples, const About& about);

/// A line for each collective and size, and one for each straight line through them.
std::string table(const std::vector<Samples>& samples);

/// A line for each sample.
std::string csv(const std::vector<Samples>& samples);

}  // namespace measure
