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
#include "planner/parallel/stages.hpp"

namespace planner {

/// A parameter of the first stage of which the last stage holds a copy, such as tied word embeddings. When
/// the gradients of both are summed over their data groups, these two stages sum them with each other.
struct TiedTensor {
  std::string tensor;
  std::string layer;  ///< of the last stage, which uses the copy
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
