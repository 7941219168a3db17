// What was measured, as numbers, as a network, as a table and as CSV.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/line_fit.hpp"
#include "core/network.hpp"
#include "profiler/measure/run.hpp"

namespace measure {

struct About {
  std::string name;    ///< of the network
  std::string source;  ///< where and how, for its origin
  std::optional<double> line_rate_gbps;
};

/// Whether a network comes of it: of a collective that has a curve in one, or of two sizes of send_receive.
bool makes_network(const Wanted& wanted);

/// Medians: a curve for each collective that a network file has. send_receive, on two sizes or more, gives
/// the link. Without either, a EnvironmentError.
core::Network network(const std::vector<Samples>& samples, const About& about);

/// A line for each collective and size, one for each straight line through them, and the halves.
std::string table(const std::vector<Samples>& samples);

/// What a library has decided by itself, by collective and size: "all_reduce tree/ll from 1 KiB, ring/simple
/// from 1 MiB". Empty where what was asked for ran.
std::string what_ran(const std::vector<Samples>& samples);

/// An all-reduce against its two halves, one after the other, where all three were measured.
struct Halves {
  std::int64_t bytes = 0;
  double all_reduce_us = 0;
  double reduce_scatter_us = 0;
  double all_gather_us = 0;

  double ratio() const { return (reduce_scatter_us + all_gather_us) / all_reduce_us; }
};
/// Of medians; sizes grow.
std::vector<Halves> halves(const std::vector<Samples>& samples);
/// In a sentence for the network's origin; empty where there are none.
std::string halves_text(const std::vector<Samples>& samples);

/// A line for each sample.
std::string csv(const std::vector<Samples>& samples);

}  // namespace measure
