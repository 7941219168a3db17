// Sparse all-reduces as costs: what each sends of a gradient of which every worker has kept a share, counted
// from what the collectives of sparse/ really send.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "planner/cost/code_cost.hpp"
#include "planner/cost/collectives.hpp"

namespace planner {

/// The keys of a sparse all-reduce besides its density and what selecting and decoding cost.
struct SparseOptions {
  /// Share of a worker's indexes that all workers have in common; the others lie independently. None: all are
  /// independent or, in hitopk's last step, different.
  std::optional<double> overlap;
  bool paper_bytes = false;           ///< hitopk: 4 bytes for an element kept (eq. 9, 10), not 8
  std::int64_t recompute_every = 32;  ///< ok-topk: iterations, as the next
  std::int64_t repartition_every = 64;
  CodeCost recompute_selection;  ///< ok-topk: of iterations that recompute thresholds
  bool spikes = false;           ///< ok-topk: in the iterations that have them, not spread over all
  bool bound = false;            ///< ok-topk: the most that it sends (the paper's 6k), not the expectation
  bool operator==(const SparseOptions&) const = default;
};

/// Share of elements that some worker of so many has kept, each having kept `density` of them: of
/// independent indexes 1 - (1 - density)^workers; with an overlap s, s density are the same on all workers
/// and the rest of each worker's lies independently among the elements that are left.
double fill_in(double density, std::int64_t workers, double overlap);

/// What goes over one kind of link. Bytes are of the rank that receives most; in gtopk, where one rank does
/// all one after another, those it sends, too.
struct Traffic {
  double messages = 0;         ///< one after another
  double bytes = 0;            ///< whatever the gradient's size: sizes and forms
  double bytes_per_byte = 0;   ///< for a dense byte of the gradient
  double summed_per_byte = 0;  ///< dense bytes summed for a dense byte of the gradient

  double us(const core::Link& link) const;  ///< whatever the gradient's size
  double us_per_byte(const core::Link& link) const;
};

/// One call on one number of workers.
struct SparseCall {
  Traffic flat;           ///< between any two workers: over the slowest level spanned
  Traffic inside;         ///< a node
  Traffic between;        ///< nodes
  double sent_bytes = 0;  ///< by a worker, mean over workers, whatever the gradient's size
  double sent_per_byte = 0;
};

/// What a call sends, and what it sends more in some iterations.
struct SparseCalls {
  SparseCall usual;
  std::optional<SparseCall> recomputing;  ///< in place of `usual`
  SparseCall repartitioning;              ///< besides either
  double selects_from = 1;                ///< share of the gradient in which a worker selects
};

struct SparseEntry {
  std::string_view name;
  std::string_view summary;
  /// Null: an all-gather of what workers keep, measured where that was measured.
  SparseCalls (*calls)(const Fabric& fabric, double density, const SparseOptions& options) = nullptr;
  CodeCost selection;
  std::string_view source;  ///< of the selection's cost
  /// What of compression/ selects, where its measured costs are given.
  std::string_view selector = "top-k";
  CodeCost recompute_selection = {};
  std::span<const std::string_view> option_keys = {};
  bool needs_nodes = false;
  bool is_alias = false;  ///< another name of the one before it
};

/// Every sparse all-reduce, in the order in which help lists them.
std::span<const SparseEntry> sparse_collectives();
/// Returns nullptr if there is no such name.
const SparseEntry* find_sparse(std::string_view name);

/// Of any compressor, between nodes alone: reduce-scatter in each node, on each of its parts the all-gather
/// of encodings or their all-reduce, `ratio` bytes for a dense one, and the dense all-gather in the node
/// again.
SparseCall between_nodes(const Fabric& fabric, double ratio, bool gathers);

/// Startup and slope of a call, and what a worker sends, mean over workers.
struct SparseCost {
  double startup_us = 0;
  double us_per_byte = 0;
  double sent_bytes = 0;
  double sent_per_byte = 0;
};
SparseCost cost_of(const SparseCall& call, const Fabric& fabric);

}  // namespace planner
