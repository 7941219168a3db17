// How a job is divided beyond data parallelism: tensor, expert and pipeline parallelism, and where its
// process groups lie on the network.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/network.hpp"
#include "planner/cost/placement.hpp"

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

/// A parameter of the first stage of which the last stage holds a copy, such as tied word embeddings. When
/// the gradients of both are summed over their data groups, these two stages sum them with each other.
struct TiedTensor {
  std::string tensor;
  std::string layer;  ///< of the last stage, which uses the copy
};

struct Stages {
  StageOrder order = StageOrder::one_f_one_b;
  std::int64_t micro_batches = 1;
  std::int64_t virtual_stages = 1;  ///< parts of the model in each stage
  double p2p_us = 0;                ///< from the end of a pass to the start of the next stage's
  /// Of each part, for one micro-batch, instead of the profile's.
  std::optional<double> forward_us = {};
  std::optional<double> backward_us = {};
  std::vector<std::int64_t> layers = {};  ///< of each part, in order; empty: the longest part is shortest
  std::vector<std::vector<Slot>> passes = {};    ///< of each stage, where they are listed
  std::vector<std::int64_t> stage_of_part = {};  ///< likewise; elsewhere parts go round the stages
  /// Of the backward pass of a layer with parameters: what their gradients take, where the pass is divided.
  double weight_share = 0.5;
  std::optional<StageOverlap> overlap = {};  ///< absent: as the framework that has the order and the schedule
};

/// Process groups in the order of workers: those of a tensor group are neighbours, then come the expert group
/// inside the data group, the data group, and outermost the stages.
struct Parallel {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
  std::int64_t pipeline = 1;
  std::optional<std::int64_t> data = {};  ///< if absent, what the others leave
  /// A tensor belongs to the experts if one of these is a part of its name.
  std::vector<std::string> expert_tensors = {};
  std::vector<TiedTensor> tied_tensors = {};
  Stages stages = {};

  std::int64_t parts() const { return pipeline * stages.virtual_stages; }
  std::int64_t stage_of(std::int64_t part) const {
    return stages.stage_of_part.empty() ? part % pipeline
                                        : stages.stage_of_part[static_cast<std::size_t>(part)];
  }
  /// The parts of a stage, in the order of the model.
  std::vector<std::int64_t> parts_on(std::int64_t stage) const;
  /// Whether some backward passes are divided into those for input and for weight gradients.
  bool divides_backward() const;
  /// `is_sharded`: whether parameters are, as by FSDP2, which sends after the passes of several stages
  /// (perform_reduce_grad() in torch/distributed/pipelining/stage.py).
  StageOverlap overlap(bool is_sharded) const;
  /// Whether the stage sends each group of gradients under the pass that yields them.
  bool sends_under_backward(std::int64_t stage, bool is_sharded) const;
};

/// Reads the scenario's key `parallel`; throws InputError.
Parallel read_parallel(const core::Field& field);

/// Workers that sum the same gradients, with the network between them.
struct ProcessGroup {
  std::int64_t workers = 1;
  core::Network network;
};

struct ProcessGroups {
  ProcessGroup dense;
  ProcessGroup expert;
  ProcessGroup tied;  ///< a worker of the first stage and one of the last
};

/// Throws Unsupported if the workers are not a multiple of the groups.
void check_workers(const Parallel& parallel, std::int64_t workers);

/// The data-parallel groups of a job on this many workers. Throws Unsupported if the workers are not a
/// multiple of the groups, or do not fill the levels of the network.
ProcessGroups process_groups(const Parallel& parallel, const core::Network& network, std::int64_t workers);

}  // namespace planner
