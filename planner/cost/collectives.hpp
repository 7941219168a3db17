// Closed forms of all-reduce: what each algorithm costs on a link or on the levels of a cluster.

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

/// The part of a network that P workers span. At least two workers.
struct Fabric {
  std::int64_t workers = 2;
  core::Link flat;  ///< what an algorithm that ignores levels runs over: the slowest level spanned
  /// With levels: workers in a node, nodes, and the links inside and between.
  struct Nodes {
    std::int64_t workers_in_node = 1;
    std::int64_t nodes = 1;
    core::Link inside;
    core::Link between;
    bool between_is_shared = false;
  };
  std::optional<Nodes> nodes;
};

/// All-reduce of M bytes takes startup + (link + sum) M; every worker sends `sent` M on average.
struct ClosedForm {
  double startup_us = 0;
  double link_us_per_byte = 0;  ///< what beta costs
  double sum_us_per_byte = 0;   ///< what gamma costs
  double sent_per_byte = 0;
};

/// Which all-reduce, as `collectives.all_reduce` says it.
struct Algorithm {
  std::string name = "ring";
  double bandwidth_factor = 2;  ///< double_binary_tree: times beta (contract, section 2)
  std::int64_t servers = 1;     ///< parameter_server: how many
  double density = 0.01;        ///< hierarchical_topk: share of the elements that travel between nodes
  bool paper_bytes = false;     ///< hierarchical_topk: 4 bytes for each of them, not 8
  bool operator==(const Algorithm&) const = default;
};

struct AlgorithmEntry {
  std::string_view name;
  std::string_view summary;
  ClosedForm (*cost)(const Fabric& fabric, const Algorithm& algorithm);
  bool needs_nodes = false;  ///< defined on levels only
  bool has_halves = true;    ///< can be cut into a reduce-scatter and an all-gather
};

/// Every all-reduce algorithm, in the order in which help lists them.
std::span<const AlgorithmEntry> algorithms();
const AlgorithmEntry& algorithm_entry(std::string_view name);

/// A name, or `{"algorithm": NAME, "bandwidth_factor": F}`, or with `servers`.
Algorithm read_algorithm(const core::Field& field);

/// As read_algorithm() takes it.
nlohmann::ordered_json algorithm_json(const Algorithm& algorithm);

/// `{"all_reduce": ...}`; ring where the key is absent.
Algorithm read_collectives(const core::Field& field);

/// ceil(log2 workers)
std::int64_t rounds(std::int64_t workers);

}  // namespace planner
