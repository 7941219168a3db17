// Writes the measurements as statistics, as a network, as a table and as CSV.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/line_fit.hpp"
#include "core/network.hpp"
#include "profiler/measure/run.hpp"

namespace measure {

struct NetworkInfo {
  std::string name;    ///< of the network
  std::string source;  ///< where and how it was measured, for its origin
  std::optional<double> line_rate_gbps;
};

/// Returns whether the results can be a network: they need a collective that has a curve in one, or two sizes
/// of send_receive.
bool makes_network(const RunOptions& wanted);

/// Uses medians: a curve for each collective that a network file has; send_receive, on two sizes or more,
/// gives the link. Throws EnvironmentError if there is neither.
core::Network network(const std::vector<Samples>& samples, const NetworkInfo& about);

/// Prints one line per collective and size, one per fitted straight line, and the halves.
std::string table(const std::vector<Samples>& samples);

/// Describes the library's own choices by collective and size: "all_reduce tree/ll from 1 KiB, ring/simple
/// from 1 MiB". Empty if the requested algorithm ran.
std::string what_ran(const std::vector<Samples>& samples);

/// Compares an all-reduce with its two halves, one after the other, if all three were measured.
struct Halves {
  std::int64_t bytes = 0;
  double all_reduce_us = 0;
  double reduce_scatter_us = 0;
  double all_gather_us = 0;

  double ratio() const { return (reduce_scatter_us + all_gather_us) / all_reduce_us; }
};
/// Computed from medians, sorted by size.
std::vector<Halves> halves(const std::vector<Samples>& samples);
/// Returns a sentence for the network's origin; empty if there are none.
std::string halves_text(const std::vector<Samples>& samples);

/// One line per sample.
std::string csv(const std::vector<Samples>& samples);

}  // namespace measure
