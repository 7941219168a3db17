// The ways in which a group can travel, and what a group costs that travels one way.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/collectives.hpp"
#include "planner/cost/compressor.hpp"
#include "planner/cost/costs.hpp"

namespace planner {

struct Transfer {
  Algorithm all_reduce;
  Compressor compressor;
  /// Groups that are sooner there as they are travel uncompressed (HiPress' selective compression).
  bool selective = false;
  bool operator==(const Transfer&) const = default;
};

/// A way as far as it is not the schedule's own.
struct TransferChoice {
  std::optional<Algorithm> all_reduce;
  std::optional<Compressor> compressor;
  bool operator==(const TransferChoice&) const = default;
};

/// `own` but for what the choice says.
Transfer chosen(const Transfer& own, const TransferChoice& choice);

/// Of one group, each time rounded once.
struct GroupCost {
  sim::Time encode{};
  sim::Time channel{};
  sim::Time decode{};
};

/// What groups cost that travel one way on a number of workers. One worker sends, encodes and decodes
/// nothing.
class TransferCost {
 public:
  /// `slowdown` multiplies encoding and decoding. `network` must outlive this.
  TransferCost(const core::Network& network, std::int64_t workers, Transfer transfer, double slowdown = 1);

  /// The same, encoded and decoded by a worker that nothing slows: which groups are encoded is decided for
  /// all workers at once.
  TransferCost at_full_speed() const;

  /// The same as iteration `iteration` (from 0) has it, where some cost more than others; which groups are
  /// encoded is decided for all alike.
  TransferCost in_iteration(std::uint64_t iteration) const;
  /// Whether in_iteration() differs.
  bool has_spikes() const {
    return sparse_ && transfer_.compressor.sparse && transfer_.compressor.sparse->spikes;
  }
  /// Carried by an all-reduce with a closed form of its own, sparse or compressed between nodes, whatever
  /// carrier() says.
  bool is_sparse() const { return sparse_.has_value(); }

  const Transfer& transfer() const { return transfer_; }
  const Costs& costs() const { return costs_; }
  std::int64_t workers() const { return costs_.workers(); }

  /// What the compressor makes of a pipeline's collective: all-reduce becomes all-gather where encoded
  /// gradients cannot be summed. A half stays what it is.
  core::CollectiveKind carrier(core::CollectiveKind kind) const;

  /// Of a group of so many dense bytes. Throw Unsupported as Costs::of() does.
  bool is_encoded(std::int64_t bytes) const;
  double encode_us(std::int64_t bytes) const;
  double decode_us(std::int64_t bytes) const;
  double us(core::CollectiveKind kind, std::int64_t bytes) const;
  /// The message that `carrier` is given: what the cost is looked up for.
  double message_bytes(core::CollectiveKind kind, std::int64_t bytes) const;
  /// What a worker sends, mean over workers.
  double sent_bytes(core::CollectiveKind kind, std::int64_t bytes) const;

  GroupCost cost(core::CollectiveKind kind, std::int64_t bytes) const;
  sim::Time encode(std::int64_t bytes) const { return sim::from_us(encode_us(bytes)); }
  sim::Time decode(std::int64_t bytes) const { return sim::from_us(decode_us(bytes)); }
  sim::Time time(core::CollectiveKind kind, std::int64_t bytes) const {
    return sim::from_us(us(kind, bytes));
  }

  bool encodes() const;
  bool decodes() const { return compresses_ && !transfer_.compressor.decode.is_free(); }
  /// Whether more bytes never cost less, on the channel or in code: planners may then stop looking at larger
  /// groups.
  bool is_monotone(core::CollectiveKind kind) const;
  /// What two groups cost more apart than together, at least; below 0 where they may cost less.
  double saved_on_channel_us(core::CollectiveKind kind) const;
  /// Whether a longer group never takes less to encode or decode, and two never less apart than together.
  bool coding_grows() const;
  bool merging_saves_code() const;
  /// The most that a group of up to so many bytes can cost, in code and on the channel.
  double max_us(core::CollectiveKind kind, std::int64_t bytes) const;

 private:
  /// How many of each an iteration has.
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
    double selects_from = 1;  ///< shares of the gradient
    double decodes = 1;
  };

  void make_sparse(const core::Network& network);
  void make_between_nodes(const core::Network& network);
  bool carries_sparse(core::CollectiveKind kind) const {
    return sparse_ && kind == core::CollectiveKind::all_reduce;
  }
  double sparse_us(const Calls& calls, double bytes) const;
  double selection_us(const Calls& calls, double bytes) const;
  double decoding_us(double bytes) const;
  double max_in_code_us(double bytes) const;
  double dense_us(core::CollectiveKind kind, double bytes) const;
  double encoded_us(core::CollectiveKind kind, double bytes, const Calls& calls) const;
  /// None where the kind is a half.
  const CodeCost* in_transit(core::CollectiveKind kind) const;
  double encoded_message(core::CollectiveKind kind, double bytes) const;

  Transfer transfer_;
  Costs costs_;
  double slowdown_;           // of the worker that encodes and decodes
  double deciding_slowdown_;  // of the slowest
  bool compresses_;
  std::optional<Sparse> sparse_;
  double contributions_ = 1;  // that are decoded
  Calls mean_;                // of an iteration, by which ways and groupings are chosen
  Calls now_;
};

}  // namespace planner
