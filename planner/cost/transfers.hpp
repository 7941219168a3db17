// The transfers of a group, which define how it is sent, and their costs.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "planner/cost/collectives.hpp"
#include "planner/cost/compressor.hpp"
#include "planner/cost/costs.hpp"
#include "planner/job/data_types.hpp"
#include "planner/job/workload.hpp"

namespace planner {

struct Transfer {
  Algorithm all_reduce;
  Compressor compressor;
  /// Groups that arrive sooner uncompressed are sent uncompressed (selective compression of HiPress).
  bool selective = false;
  Wire wire =
      {};  ///< only of uncompressed groups; make_transfers() refuses any other than 1 with a compressor
  /// The workers of a shard group, among which reduce-scatters and all-gathers run; its all-reduces then sum
  /// each worker's share over the shard groups. 0: all workers are one group.
  std::int64_t shard_workers = 0;
  /// The first dimension of each tensor is padded to a multiple of the workers that hold all parameters
  /// together. Only of uncompressed groups.
  bool pads_tensors = false;
  /// All-gathers carry parameters, those that are not trained, too. Only of uncompressed groups.
  bool gathers_frozen = false;
  bool operator==(const Transfer&) const = default;
};

/// The differences of a transfer from the schedule's own.
struct TransferChoice {
  std::optional<Algorithm> all_reduce;
  std::optional<Compressor> compressor;
  bool operator==(const TransferChoice&) const = default;
};

/// `own` with the differences of `choice` applied.
Transfer chosen(const Transfer& own, const TransferChoice& choice);

/// The cost of one group; each time is rounded once.
struct GroupCost {
  sim::Time encode{};
  sim::Time channel{};
  sim::Time decode{};
};

/// The costs of groups of gradients that use one transfer on a number of workers. With one worker, sending,
/// encoding and decoding cost nothing. Where tensors are padded, or what is not trained is gathered, payloads
/// have to name their gradients.
class TransferCost {
 public:
  /// `slowdown` multiplies encoding and decoding times. `network` must outlive this object. PowerSGD,
  /// padding and what is not trained need the workload. Throws Unsupported if it lacks shapes that PowerSGD
  /// needs.
  TransferCost(const core::Network& network, std::int64_t workers, Transfer transfer, double slowdown = 1,
               const Workload* workload = nullptr);

  /// The costs for a worker without slowdown. The decision which groups are encoded is unchanged, as it holds
  /// for all workers.
  TransferCost at_full_speed() const;

  /// The costs in iteration `iteration` (from 0), for transfers whose costs differ between iterations. The
  /// decision which groups are encoded is the same in all iterations.
  TransferCost in_iteration(std::uint64_t iteration) const;
  /// Whether in_iteration() differs from the mean.
  bool has_spikes() const {
    return sparse_ && transfer_.compressor.sparse && transfer_.compressor.sparse->spikes;
  }
  /// Whether an all-reduce with a closed form of its own, sparse or compressed between nodes, transfers the
  /// group, whatever carrier() returns.
  bool is_sparse() const { return sparse_.has_value(); }

  /// Whether costs depend on the shapes of tensors, so that bytes alone do not give them.
  bool depends_on_shapes() const { return low_rank_ != nullptr; }

  const Transfer& transfer() const { return transfer_; }
  const Costs& costs() const { return costs_; }
  /// The costs of a collective of this kind, on the workers among which it runs.
  const Costs& costs_of(core::CollectiveKind kind) const {
    return replicas_ && kind == core::CollectiveKind::all_reduce ? replicas_->costs : costs_;
  }
  /// The workers that hold all parameters together: all of them, or those of a shard group.
  std::int64_t workers() const { return costs_.workers(); }
  /// All workers, those of all shard groups.
  std::int64_t all_workers() const { return costs_.workers() * (replicas_ ? replicas_->costs.workers() : 1); }
  /// Whether there are several shard groups.
  bool is_replicated() const { return replicas_ && replicas_->costs.workers() > 1; }

  /// The collective that replaces a pipeline's collective under the compressor: all-reduce becomes all-gather
  /// if encoded gradients cannot be summed. A reduce-scatter or all-gather is unchanged.
  core::CollectiveKind carrier(core::CollectiveKind kind) const;

  /// The bytes of the largest input that is encoded at once: the group, or a matrix of it; 0 if none is.
  std::int64_t largest_encoded(const Payload& payload) const;

  /// Whether a group of this many dense bytes is encoded. This and the next functions throw Unsupported under
  /// the same conditions as Costs::of().
  bool is_encoded(const Payload& payload) const;
  double encode_us(const Payload& payload) const;
  double decode_us(const Payload& payload) const;
  double us(core::CollectiveKind kind, const Payload& payload) const;
  /// The bytes of a group with those of its padding.
  std::int64_t padded_bytes(const Payload& payload) const {
    if (!padding_before_) return payload.bytes;
    return payload.bytes + (*padding_before_)[payload.end] - (*padding_before_)[payload.begin];
  }
  /// The bytes of parameters that are not trained and are gathered with a group, 0 if they are not.
  std::int64_t frozen_bytes(const Payload& payload) const {
    return frozen_before_ ? (*frozen_before_)[payload.end] - (*frozen_before_)[payload.begin] : 0;
  }
  /// The size of an uncompressed group's message, in the element type of the collective, with padding.
  double wire_bytes(core::CollectiveKind kind, const Payload& payload) const {
    return scaled(kind, static_cast<double>(carried_bytes(kind, payload)));
  }
  /// The sizes of the messages that `carrier` sends one after another, for which costs are looked up: one,
  /// but for PowerSGD those of the tensors that are sent as they are and of both factors, as far as there
  /// are.
  std::vector<double> messages(core::CollectiveKind kind, const Payload& payload) const;
  /// Their sum.
  double message_bytes(core::CollectiveKind kind, const Payload& payload) const;
  /// Bytes sent per worker, mean over workers.
  double sent_bytes(core::CollectiveKind kind, const Payload& payload) const;

  GroupCost cost(core::CollectiveKind kind, const Payload& payload) const;
  sim::Time encode(const Payload& payload) const { return sim::from_us(encode_us(payload)); }
  sim::Time decode(const Payload& payload) const { return sim::from_us(decode_us(payload)); }
  sim::Time time(core::CollectiveKind kind, const Payload& payload) const {
    return sim::from_us(us(kind, payload));
  }

  bool encodes() const;
  bool decodes() const { return compresses_ && !transfer_.compressor.decode.is_free(); }
  /// Whether more bytes never cost less, on the channel or in coding; if so, planners can prune larger
  /// groups.
  bool is_monotone(core::CollectiveKind kind) const;
  /// A lower bound of the channel time saved by merging two groups; negative if merging may cost time.
  double saved_on_channel_us(core::CollectiveKind kind) const;
  /// Whether a longer group never takes less time to encode or decode, and two groups never take less
  /// separately than together.
  bool coding_grows() const;
  bool merging_saves_code() const;
  /// The maximum cost, in coding and on the channel, of a group of up to this many bytes, or of a part of
  /// these gradients.
  double max_us(core::CollectiveKind kind, const Payload& payload) const;
  /// An upper bound of the cost of these gradients in up to `groups` groups of any sizes.
  double max_in_groups_us(core::CollectiveKind kind, const Payload& payload, std::size_t groups) const;

 private:
  /// The number of calls of each kind per iteration.
  struct Calls {
    double usual = 1;
    double recomputing = 0;
    double repartitioning = 0;
  };
  struct Sparse {
    SparseCost usual;
    SparseCost recomputing;
    SparseCost repartitioning;
    bool recomputes = false;
    double selects_from = 1;  ///< share of the gradient from which elements are selected
    double decodes = 1;
  };

  /// The workers with the same share, one of each shard group.
  struct Replicas {
    Replicas(const core::Network& network, std::int64_t workers, const Transfer& transfer);

    std::shared_ptr<const core::Network> network;
    Costs costs;
    double share;
  };

  std::int64_t carried_bytes(core::CollectiveKind kind, const Payload& payload) const {
    const bool gathers = kind == core::CollectiveKind::all_gather;
    return padded_bytes(payload) + (gathers ? frozen_bytes(payload) : 0);
  }
  double scaled(core::CollectiveKind kind, double bytes) const {
    const bool gathers = kind == core::CollectiveKind::all_gather;
    const double share = replicas_ && kind == core::CollectiveKind::all_reduce ? replicas_->share : 1;
    return bytes * share * (gathers ? transfer_.wire.gather : transfer_.wire.reduce);
  }
  void make_sparse(const core::Network& network);
  void make_between_nodes(const core::Network& network);
  bool carries_sparse(core::CollectiveKind kind) const {
    return sparse_ && kind == core::CollectiveKind::all_reduce;
  }
  LowRankVolume volume(const Payload& payload) const;
  double sparse_us(const Calls& calls, double bytes) const;
  double selection_us(const Calls& calls, const Payload& payload) const;
  double decoding_us(const Payload& payload) const;
  double max_in_code_us(const Payload& payload) const;
  double max_encoded_us(core::CollectiveKind kind, const Payload& payload) const;
  double dense_us(core::CollectiveKind kind, const Payload& payload) const;
  double encoded_us(core::CollectiveKind kind, const Payload& payload, const Calls& calls) const;
  /// None if the kind is a reduce-scatter or all-gather.
  const CodeCost* in_transit(core::CollectiveKind kind) const;
  double encoded_message(core::CollectiveKind kind, double bytes) const;

  Transfer transfer_;
  Costs costs_;
  std::optional<Replicas> replicas_;
  double slowdown_;           // of the worker that encodes and decodes
  double deciding_slowdown_;  // of the slowest worker
  bool compresses_;
  std::optional<Sparse> sparse_;
  // These two are shared because costs are copied.
  std::shared_ptr<const LowRankVolumes> low_rank_;                   // set if PowerSGD compresses
  std::shared_ptr<const std::vector<std::int64_t>> padding_before_;  // by gradient; set if tensors are padded
  std::shared_ptr<const std::vector<std::int64_t>> frozen_before_;   // likewise; set if that is gathered
  double contributions_ = 1;                                         // number of contributions to decode
  Calls mean_;  // per iteration, for choosing transfers and groupings
  Calls now_;
};

}  // namespace planner
