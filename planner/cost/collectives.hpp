// Closed forms of all-reduce: the cost of each algorithm on a link or on the levels of a cluster.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "core/network.hpp"

namespace planner {

/// The part of a network that P workers span; P is at least 2.
struct Fabric {
  std::int64_t workers = 2;
  core::Link flat;  ///< the slowest level spanned; used by algorithms that ignore levels
  /// For networks with levels: workers per node, number of nodes, and the links inside and between nodes.
  struct Nodes {
    std::int64_t workers_in_node = 1;
    std::int64_t nodes = 1;
    core::Link inside;
    core::Link between;
    bool between_is_shared = false;
  };
  std::optional<Nodes> nodes;
};

/// The cost of an all-reduce of M bytes: startup + (link + sum) M. A worker sends `sent` M bytes on average.
struct ClosedForm {
  double startup_us = 0;
  double link_us_per_byte = 0;  ///< the beta part
  double sum_us_per_byte = 0;   ///< the gamma part
  double sent_per_byte = 0;
};

/// An all-reduce algorithm with its parameters, as given by `collectives.all_reduce`.
struct Algorithm {
  std::string name = "ring";
  double bandwidth_factor = 2;  ///< double_binary_tree: factor on beta (contract, section 2)
  std::int64_t servers = 1;     ///< parameter_server: number of servers
  double density = 0.01;        ///< hierarchical_topk: share of the elements sent between nodes
  bool paper_bytes = false;     ///< hierarchical_topk: 4 bytes per sent element instead of 8
  bool operator==(const Algorithm&) const = default;
};

struct AlgorithmEntry {
  std::string_view name;
  std::string_view summary;
  ClosedForm (*cost)(const Fabric& fabric, const Algorithm& algorithm);
  bool needs_nodes = false;  ///< is defined only on networks with levels
  bool has_halves = true;    ///< can be split into a reduce-scatter and an all-gather
};

/// Every all-reduce algorithm, in the order in which help lists them.
std::span<const AlgorithmEntry> algorithms();
const AlgorithmEntry& algorithm_entry(std::string_view name);

/// Reads a name, `{"algorithm": NAME, "bandwidth_factor": F}`, or an object with `servers`.
Algorithm read_algorithm(const core::Field& field);

/// Writes the form that read_algorithm() reads.
nlohmann::ordered_json algorithm_json(const Algorithm& algorithm);

/// Reads `{"all_reduce": ...}`; the default is ring.
Algorithm read_collectives(const core::Field& field);

/// Returns ceil(log2 workers).
std::int64_t rounds(std::int64_t workers);

}  // namespace planner
