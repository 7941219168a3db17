// How a job is divided beyond data parallelism: tensor, expert and pipeline parallelism, and where its
// process groups lie on the network.

#pragma once

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

/// The order of micro-batches in the stages of a pipeline.
enum class StageOrder {
  one_f_one_b,  ///< 1F1B: as many forward passes ahead as stages follow, then one backward for each forward
  interleaved,  ///< Megatron-LM's interleaved 1F1B: each stage has several parts of the model
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
  /// Whether every stage sends gradients under its last backward pass, as torchtitan does. Otherwise, as in
  /// Megatron-LM, the first stage alone does, and a part of an interleaved stage sends all at once, as many
  /// backward passes later as stages precede it.
  bool overlaps_in_all = false;
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
