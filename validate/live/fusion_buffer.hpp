// A group in a live run: its fusion buffer, encoding, transfer and decoding, and the expected result.

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
#include "collectives/low_rank/power_sgd.hpp"
#include "collectives/sparse/ok_topk.hpp"
#include "collectives/transport/transport.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/cost/transfers.hpp"
#include "validate/live/dense.hpp"
#include "validate/live/gradients.hpp"
#include "validate/live/tags.hpp"

namespace live {

/// Sparse all-reduces with an implementation of their own; TopkA is an all-gather of encodings.
enum class SparseKind : std::uint8_t { topk_dsa, gtopk, ok_topk, hitopk };

/// A transfer as the code that runs it.
struct Method {
  std::string all_reduce;  ///< algorithm for dense groups
  const compression::Compressor* encoder =
      nullptr;  ///< null for groups that the next two send, and dense ones
  std::optional<low_rank::PowerSgdOptions> low_rank = {};
  std::optional<SparseKind> sparse = {};
  double density = 1;
  std::uint64_t recompute_every = 32;
  std::uint64_t repartition_every = 64;
  std::uint32_t workers_per_node = 1;
  /// Gradients are summed dense inside a node; only traffic between nodes is encoded, in transit.
  bool between_nodes = false;
  bool error_feedback = false;

  bool is_dense() const { return encoder == nullptr && !sparse && !low_rank; }
  /// The kind of numbers in its gradients.
  Spread spread() const { return encoder != nullptr && encoder->sums() ? Spread::narrow : Spread::wide; }
};

/// Throws InputError for transfers that have costs but no implementation here.
Method method_of(const planner::Transfer& transfer, bool is_encoded, std::uint32_t workers_per_node,
                 bool error_feedback = false);

low_rank::PowerSgdOptions low_rank_options(const planner::LowRankOptions& options);

/// The matrix that PowerSGD sees in a tensor with a shape.
low_rank::Matrix matrix_of(const core::ProfileTensor& tensor);

/// One rank's part of one group.
class FusionBuffer {
 public:
  /// `gradient`, the group's part of the worker's gradients, must outlive this object. `tensors` are those of
  /// the group, which only PowerSGD needs. `engine` holds the buffer of a dense group that another backend
  /// transfers.
  FusionBuffer(Method method, std::span<float> gradient, std::uint32_t ranks, std::uint64_t seed,
               std::span<const low_rank::Matrix> tensors = {}, std::unique_ptr<measure::Engine> engine = {});

  const Method& method() const { return method_; }
  std::span<float> gradient() const { return gradient_; }
  std::span<const float> buffer() const { return buffer_; }
  /// Copies the gradient into the fusion buffer, so that an all_gather has input.
  void load();
  /// Copies the result out of a fusion buffer that is elsewhere.
  void store();

  /// Encodes the gradient, plus the residual if error feedback is on; does nothing if the method does not
  /// encode.
  void encode();
  /// Runs the collective. Dense gradients are copied into the fusion buffer before and out of it after; if
  /// the buffer is elsewhere, load() and store() do so. reduce_scatter leaves the rank's part in the buffer,
  /// and all_gather starts from it.
  void carry(transport::Transport& transport, core::CollectiveKind kind);
  /// Decodes into the gradient.
  void decode();
  /// The elements that the rank holds after a reduce_scatter.
  std::span<float> own_part(std::uint32_t rank);
  /// The residual that error feedback keeps for the next gradient; for HiTopKComm and between nodes, of the
  /// rank's part.
  std::span<const float> left() const { return low_rank_ ? low_rank_->residual() : feedback_.residual; }
  /// The size of the last encoding; the gradient's size if nothing is encoded.
  std::size_t encoded_bytes() const;

 private:
  void carry_dense(transport::Transport& transport, core::CollectiveKind kind);
  void carry_encoded(transport::Transport& transport, core::CollectiveKind kind);
  void carry_low_rank(transport::Transport& transport);
  void carry_sparse(transport::Transport& transport);
  void carry_between_nodes(transport::Transport& transport);
  void take_selected(sparse::Selected selected);
  void carry_hitopk(transport::Transport& transport);

  Method method_;
  std::span<float> gradient_;
  std::uint32_t ranks_;
  std::vector<float> buffer_;   // empty unless the group is dense
  std::optional<Dense> dense_;  // refers to the buffer
  std::optional<low_rank::PowerSgd> low_rank_;
  std::vector<Dense> low_rank_sums_;  // of the rest, P and Q, as far as there are; refer to `low_rank_`
  compression::State state_;
  compression::ErrorFeedback feedback_;
  std::vector<transport::Bytes> encodings_;  // its own, or all gathered ones
  compression::SparseVector selection_;      // its own, then the sum
  sparse::OkTopkState ok_topk_;
};

/// The expected result of a group's collective, computed without the transport: encodings and selections of
/// all ranks, or of the parts of all nodes, are computed again and summed. (gTopk and Ok-Topk, which select
/// in transit, and PowerSGD, whose factors are sums, run again between threads.)
class Expected {
 public:
  /// `first` is the index of the group's first element in the gradients.
  Expected(const Method& method, const Gradients& gradients, std::size_t first, std::size_t elements,
           std::uint64_t seed, std::span<const low_rank::Matrix> tensors = {});

  /// Returns an error text, empty if the result is right. Call it for every iteration in order, as some
  /// methods are stateful.
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
  std::vector<std::unique_ptr<FusionBuffer>> fusion_buffers_;  // by rank; only for methods that run between
                                                               // threads
};

}  // namespace live
