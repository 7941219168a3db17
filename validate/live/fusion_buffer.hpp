// A group on its way: its fusion buffer, how it is encoded, carried and decoded, and what must come out.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/error_feedback.hpp"
#include "collectives/compression/sparse_vector.hpp"
#include "collectives/sparse/ok_topk.hpp"
#include "collectives/transport/transport.hpp"
#include "core/network.hpp"
#include "planner/cost/transfers.hpp"
#include "validate/live/dense.hpp"
#include "validate/live/gradients.hpp"
#include "validate/live/tags.hpp"

namespace live {

/// A sparse all-reduce with code of its own; TopkA is an all-gather of encodings.
enum class SparseKind : std::uint8_t { topk_dsa, gtopk, ok_topk, hitopk };

/// A way as the code that runs it.
struct Method {
  std::string all_reduce;                            ///< the pattern of dense groups
  const compression::Compressor* encoder = nullptr;  ///< null: dense, or sparse
  std::optional<SparseKind> sparse = {};
  double density = 1;
  std::uint64_t recompute_every = 32;
  std::uint64_t repartition_every = 64;
  std::uint32_t workers_per_node = 1;
  /// Gradients are summed dense in a node, and only what goes between nodes is encoded: on the way.
  bool between_nodes = false;
  bool error_feedback = false;

  bool is_dense() const { return encoder == nullptr && !sparse; }
  /// Whether planners count it among all-gathers.
  bool gathers() const { return sparse || (encoder != nullptr && !encoder->sums()); }
  /// Which numbers its gradients are made of.
  Spread spread() const { return encoder != nullptr && encoder->sums() ? Spread::narrow : Spread::wide; }
};

/// Throws InputError for what has costs but no code here.
Method method_of(const planner::Transfer& transfer, bool is_encoded, std::uint32_t workers_per_node,
                 bool error_feedback = false);

/// One rank's part in one group.
class FusionBuffer {
 public:
  /// `gradient` is the group's part of the worker's gradients and must outlive this. `engine`: of a dense
  /// group that another backend carries, a buffer there.
  FusionBuffer(Method method, std::span<float> gradient, std::uint32_t ranks, std::uint64_t seed,
               std::unique_ptr<measure::Engine> engine = {});

  const Method& method() const { return method_; }
  std::span<float> gradient() const { return gradient_; }
  std::span<const float> buffer() const { return buffer_; }
  /// Into the fusion buffer, wherever it is: so that an all_gather has something to begin with.
  void load();
  /// Out of a fusion buffer that is elsewhere.
  void store();

  /// Of the gradient, with what was left out before where there is error feedback; nothing where the method
  /// encodes nothing.
  void encode();
  /// Dense gradients are copied into the fusion buffer before, and what comes of it is copied out after;
  /// where the buffer is elsewhere load() and store() do that. Of the halves reduce_scatter leaves the rank's
  /// part in the buffer, and all_gather begins with that.
  void carry(transport::Transport& transport, core::CollectiveKind kind);
  /// Into the gradient.
  void decode();
  /// Which elements the rank has after a reduce_scatter.
  std::span<float> own_part(std::uint32_t rank);
  /// What error feedback keeps for the next gradient: of HiTopKComm and between nodes, of the rank's part.
  std::span<const float> left() const { return feedback_.residual; }
  /// What the last encoding has; the gradient's own where nothing is encoded.
  std::size_t encoded_bytes() const;

 private:
  void carry_dense(transport::Transport& transport, core::CollectiveKind kind);
  void carry_encoded(transport::Transport& transport, core::CollectiveKind kind);
  void carry_sparse(transport::Transport& transport);
  void carry_between_nodes(transport::Transport& transport);
  void take_selected(sparse::Selected selected);
  void carry_hitopk(transport::Transport& transport);

  Method method_;
  std::span<float> gradient_;
  std::uint32_t ranks_;
  std::vector<float> buffer_;   // empty unless it is dense
  std::optional<Dense> dense_;  // of the buffer
  compression::State state_;
  compression::ErrorFeedback feedback_;
  std::vector<transport::Bytes> encodings_;  // own, or all that were gathered
  compression::SparseVector selection_;      // own, then the sum
  sparse::OkTopkState ok_topk_;
};

/// What a group's collective must leave, worked out without the transport: encodings and selections of all
/// ranks, or of all nodes' parts, are made again and summed. (gTopk and Ok-Topk, which select on the way, run
/// once more between threads.)
class Expected {
 public:
  /// Elements first, first + 1, ... of the gradients.
  Expected(const Method& method, const Gradients& gradients, std::size_t first, std::size_t elements,
           std::uint64_t seed);

  /// Empty if right. To be asked for every iteration, in order: some ways keep a state.
  std::string fault(std::uint32_t iteration, std::span<const float> result);

 private:
  std::vector<float> of_encodings();
  std::vector<float> of_nodes();
  void add_kept(std::uint32_t rank, std::span<const float> values, std::span<float> sum);
  std::vector<float> between_threads();

  const Gradients& gradients_;
  Method method_;
  std::size_t first_;
  std::size_t elements_;
  std::vector<std::vector<float>> sampled_;                    // by rank
  std::vector<compression::State> states_;                     // by rank
  std::vector<compression::ErrorFeedback> left_;               // by rank
  std::vector<std::unique_ptr<FusionBuffer>> fusion_buffers_;  // by rank, where they run between threads
};

}  // namespace live
