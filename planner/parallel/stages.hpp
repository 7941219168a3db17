// The stages of a pipeline: the order of their passes, and when they send gradients.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace planner {

constexpr std::int64_t kMaxMicroBatches = 10'000;
constexpr std::int64_t kMaxStages = 1'000;

/// The order of passes in the stages of a pipeline.
enum class StageOrder {
  one_f_one_b,  ///< 1F1B: as many forward passes ahead as stages follow, then one backward for each forward
  interleaved,  ///< Megatron-LM's interleaved 1F1B: each stage has several parts of the model
  gpipe,        ///< all forward passes, then all backward passes (Huang et al., 2019)
  zero_bubble,  ///< ZB-H1: 1F1B whose weight gradients come a pass later for each stage before (Qi et al.,
                ///< 2023)
  listed,       ///< as Stages::passes lists them
};

/// Where the gradients of a part are sent under the pass that yields the last of them, group by group.
enum class StageOverlap {
  first_stage,  ///< in the first stage alone, as in Megatron-LM; an interleaved part sends all at once, as
                ///< many backward passes later as stages precede it
  all_stages,   ///< as DistributedDataParallel does in PyTorch's pipelines
  none,         ///< all are sent after the pass, and compute waits for them, as FSDP2 does there
};

enum class PassKind {
  forward,
  backward,          ///< both of the following
  input_gradients,   ///< the part of a backward pass that earlier parts of the model wait for
  weight_gradients,  ///< the part that yields the gradients of parameters
};

inline bool yields_weight_gradients(PassKind kind) {
  return kind == PassKind::backward || kind == PassKind::weight_gradients;
}

/// One pass of one micro-batch through one part of the model.
struct Slot {
  PassKind kind = PassKind::forward;
  std::int64_t part = 0;
  std::int64_t micro_batch = 0;
  bool operator==(const Slot&) const = default;
};

struct Stages {
  StageOrder order = StageOrder::one_f_one_b;
  std::int64_t micro_batches = 1;
  std::int64_t virtual_stages = 1;  ///< parts of the model in each stage
  double p2p_us = 0;                ///< from the end of a pass to the start of the next stage's
  /// The times of each part for one micro-batch, in place of the profile's.
  std::optional<double> forward_us = {};
  std::optional<double> backward_us = {};
  std::vector<std::int64_t> layers = {};  ///< of each part, in order; empty: the longest part is shortest
  std::vector<std::vector<Slot>> passes = {};    ///< of each stage, where they are listed
  std::vector<std::int64_t> stage_of_part = {};  ///< likewise; elsewhere parts go round the stages
  /// The share of a layer's backward pass that the gradients of its parameters take, where it is divided.
  double weight_share = 0.5;
  std::optional<StageOverlap> overlap = {};  ///< absent: as the framework that has the order and the schedule
};

}  // namespace planner
