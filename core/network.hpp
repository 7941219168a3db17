// A network: the cost of a message on a link, and the measured costs of collectives.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cost_curve.hpp"
#include "core/field.hpp"
#include "core/origin.hpp"

namespace core {

/// Point to point: a message of M bytes takes alpha + M beta; summing M bytes takes M gamma.
struct Link {
  double alpha_us = 0;
  double beta_us_per_byte = 0;
  double gamma_us_per_byte = 0;
  bool operator==(const Link&) const = default;
};

/// One level of a hierarchical cluster; levels are listed innermost first.
struct Level {
  std::string name;
  std::optional<std::int64_t> size;  ///< units of the level below; absent on the last, which holds the rest
  Link link;
  bool shared = false;  ///< one link for all workers of a node, not one for each
  bool operator==(const Level&) const = default;
};

enum class CollectiveKind { all_reduce, reduce_scatter, all_gather };

std::string_view name(CollectiveKind kind);

/// How well a straight line t = startup + bytes * slope describes the measured points.
struct Fit {
  double r2 = 0;
  double mean_relative_error = 0;
  double max_relative_error = 0;
  bool operator==(const Fit&) const = default;
};

/// Measured times of one collective on one number of workers.
struct Measured {
  CollectiveKind collective = CollectiveKind::all_reduce;
  std::optional<std::string> algorithm;  ///< absent: valid for any algorithm
  std::int64_t workers = 1;
  CostCurve curve;
  std::optional<Fit> fit;
  /// Interquartile range and 99th percentile of the samples for each point of the curve, or empty.
  std::vector<double> spread_us = {};
  std::vector<double> p99_us = {};
  bool operator==(const Measured&) const = default;
};

// What a measured curve does not say of its machine. More workers are taken to be on several machines,
// although some have 16 or 72 GPUs; the bus bandwidth of one with NVLink, or joined as fast, is at least
// this.
constexpr std::int64_t kWorkersOfMachine = 8;
constexpr double kNvlinkBytesPerUs = 50e3;

struct Network {
  std::string name;
  Origin origin;
  std::optional<Link> link;
  std::optional<double> line_rate_gbps;
  std::vector<Level> levels;
  std::vector<Measured> measured;
  bool operator==(const Network&) const = default;
};

/// `[[bytes, microseconds], ...]`, bytes increasing.
CostCurve read_curve(const core::Field& field);

/// Reads and checks `fusewise.network`; throws InputError.
Network read_network(const core::Field& field);

std::string network_text(const Network& network);

}  // namespace core
