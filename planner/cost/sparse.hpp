// Sparse all-reduces as costs: the messages that each sends for a gradient of which every worker keeps a
// share, counted from the implementations in sparse/.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "planner/cost/code_cost.hpp"
#include "planner/cost/collectives.hpp"

namespace planner {

/// The options of a sparse all-reduce other than density, selection cost and decoding cost.
struct SparseOptions {
  /// Share of a worker's indexes that all workers have in common; the others are independent. If absent, all
  /// are independent or, in the last step of hitopk, disjoint.
  std::optional<double> overlap;
  bool paper_bytes = false;           ///< hitopk: 4 bytes per kept element (eq. 9, 10) instead of 8
  std::int64_t recompute_every = 32;  ///< ok-topk: in iterations, as is the next member
  std::int64_t repartition_every = 64;
  CodeCost recompute_selection;  ///< ok-topk: in iterations that recompute thresholds
  bool spikes = false;           ///< ok-topk: charge recomputation to the iterations in which it happens
                                 ///< instead of averaging
  bool bound = false;            ///< ok-topk: charge the maximum traffic (the paper's 6k) instead of the
                                 ///< expectation
  bool operator==(const SparseOptions&) const = default;
};

/// The share of elements kept by at least one worker if each keeps `density` of them. With independent
/// indexes it is 1 - (1 - density)^workers; with overlap s, s * density elements are common to all workers
/// and the rest are independent among the remaining elements.
double fill_in(double density, std::int64_t workers, double overlap);

/// Traffic over one kind of link. Bytes are those of the rank that receives most; in gtopk, where one rank
/// runs all steps sequentially, its sent bytes are included.
struct Traffic {
  double messages = 0;         ///< sequential messages
  double bytes = 0;            ///< independent of the gradient's size: sizes and headers
  double bytes_per_byte = 0;   ///< per dense byte of the gradient
  double summed_per_byte = 0;  ///< dense bytes summed per dense byte of the gradient

  double us(const core::Link& link) const;  ///< time that does not depend on the gradient's size
  double us_per_byte(const core::Link& link) const;
};

/// The traffic of one call on a number of workers.
struct SparseCall {
  Traffic flat;           ///< between any two workers: over the slowest level spanned
  Traffic inside;         ///< inside a node
  Traffic between;        ///< between nodes
  double sent_bytes = 0;  ///< per worker, mean over workers, independent of the gradient's size
  double sent_per_byte = 0;
};

/// The regular call and the additional calls of some iterations.
struct SparseCalls {
  SparseCall usual;
  std::optional<SparseCall> recomputing;  ///< replaces `usual` in iterations that recompute thresholds
  SparseCall repartitioning;              ///< in addition to either
  double selects_from = 1;                ///< share of the gradient from which a worker selects
};

struct SparseEntry {
  std::string_view name;
  std::string_view summary;
  /// Null if the collective is an all-gather of the kept elements; measured all-gather costs are used if
  /// present.
  SparseCalls (*calls)(const Fabric& fabric, double density, const SparseOptions& options) = nullptr;
  CodeCost selection;
  std::string_view source;  ///< source of the selection's cost
  /// The selector of compression/ to use if measured costs are given.
  std::string_view selector = "top-k";
  CodeCost recompute_selection = {};
  std::span<const std::string_view> option_keys = {};
  bool needs_nodes = false;
  bool is_alias = false;  ///< whether this is another name of the previous entry
};

/// Every sparse all-reduce, in the order in which help lists them.
std::span<const SparseEntry> sparse_collectives();
/// Returns nullptr if there is no such name.
const SparseEntry* find_sparse(std::string_view name);

/// Compression between nodes only, with any compressor: a reduce-scatter inside each node; for each part an
/// all-gather or all-reduce of the encodings, `ratio` bytes per dense byte; then a dense all-gather inside
/// the node.
SparseCall between_nodes(const Fabric& fabric, double ratio, bool gathers);

/// Startup and slope of a call, and the bytes that a worker sends, mean over workers.
struct SparseCost {
  double startup_us = 0;
  double us_per_byte = 0;
  double sent_bytes = 0;
  double sent_per_byte = 0;
};
SparseCost cost_of(const SparseCall& call, const Fabric& fabric);

}  // namespace planner
