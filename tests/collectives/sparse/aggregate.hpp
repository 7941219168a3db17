// All ways to sum gradients over workers behind one interface, with error feedback or without: a dense
// all-reduce, compressed gradients that are gathered, and sparse collectives.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/error_feedback.hpp"
#include "collectives/sparse/ok_topk.hpp"
#include "collectives/transport/transport.hpp"

namespace aggregate {

/// The same on all ranks.
struct Options {
  double density = 0.03;  ///< k / n, as in compression::State
  bool error_feedback = true;
  std::uint64_t seed = 1;
  std::uint32_t workers_per_node = 2;    ///< of hitopk; the number of ranks is a multiple
  std::uint64_t recompute_every = 32;    ///< iterations, of ok-topk and threshold
  std::uint64_t repartition_every = 64;  ///< iterations, of ok-topk
};

/// What a rank keeps from iteration to iteration; starts empty.
struct State {
  compression::ErrorFeedback feedback;
  compression::State compressor;
  sparse::OkTopkState ok_topk;
};

/// How many elements were chosen; all of them where a method does not choose.
struct Selected {
  std::size_t local = 0;   ///< on this rank
  std::size_t global = 0;  ///< non-zero in the sum
};

struct Method {
  std::string_view name;
  /// dense, all-reduce or all-gather of encodings, or sparse collective
  std::string_view how;
  /// Replaces this rank's gradient by the sum over all ranks of what is taken of theirs: the same bytes on
  /// all.
  Selected (*aggregate)(const Method& method, transport::Transport& transport, const Options& options,
                        State& state, std::vector<float>& gradient);
};

/// dense, then all compressors, then topk-a, topk-dsa, gtopk, ok-topk and hitopk.
std::span<const Method> methods();

/// Returns nullptr if there is no such name.
const Method* find_method(std::string_view name);

State initial_state(const Options& options);

}  // namespace aggregate
