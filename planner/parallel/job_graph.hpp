// The task graph of one iteration of all stages of a pipeline: their passes, the messages between them, and
// the collectives of their data-parallel groups.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph/lowered.hpp"
#include "planner/parallel/parallel.hpp"
#include "sim/task_graph.hpp"

namespace planner {

/// The collectives of one process group for a part of the model.
struct PartGroups {
  bool of_experts = false;
  Workload workload;  ///< with the gradients of the process group alone
  Groups groups;
  std::vector<TransferCost> transfers;
  Program program;
};

/// A part of the model on its stage. All workloads have the same passes.
struct ModelPart {
  Workload workload;               ///< with all gradients
  std::vector<PartGroups> groups;  ///< by process group, those with gradients that travel
};

struct StageTask {
  enum class Kind { forward, backward, input_gradients, weight_gradients, message, gather, reduce, sum, tie };
  static constexpr std::int64_t kWholePass = -1;

  Kind kind = Kind::forward;
  std::int64_t part = 0;
  std::int64_t micro_batch = 0;
  std::int64_t item = kWholePass;  ///< layer, step of backward, or group of tensors; of a message: 1 if it
                                   ///< goes forward
  bool is_last = false;            ///< whether its pass yields the last gradients of the part
  std::int64_t process_group = 0;  ///< of a collective: its place in ModelPart::groups; not of `tie`
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;  ///< if it is one
};

/// Each stage has streams for compute, collectives, collectives between shard groups, and messages that carry
/// activations and gradients to other stages.
struct JobGraph {
  sim::TaskGraph graph;
  std::vector<StageTask> tasks;  ///< by task

  static constexpr std::uint32_t kStreams = 5;
  static sim::StreamId compute(std::int64_t stage) { return stream(stage, 0); }
  static sim::StreamId channel(std::int64_t stage) { return stream(stage, 1); }
  static sim::StreamId between(std::int64_t stage) { return stream(stage, 2); }
  static sim::StreamId messages(std::int64_t stage, bool is_forward) {
    return stream(stage, is_forward ? 3 : 4);
  }

 private:
  static sim::StreamId stream(std::int64_t stage, std::uint32_t which) {
    return sim::StreamId{static_cast<std::uint32_t>(stage) * kStreams + which};
  }
};

/// An iteration from the update before it to the moment when all passes and collectives have ended, which
/// every stage awaits. The parameters of a part are gathered under a pass that does not have them: once in an
/// iteration, unless the program releases them. Gradients travel once, when those of the last micro-batch are
/// ready, which is the case when the last pass has ended that yields gradients of a part. `parts` are in the
/// order of the model. `tied` is the time of the all-reduce between the first and the last stage that follows
/// all others of both, if there is one. Throws Unsupported for programs of which that cannot be said.
JobGraph lower_stages(const Parallel& parallel, const std::vector<ModelPart>& parts, const Overlap& overlap,
                      std::optional<sim::Time> tied = {});

/// Throws Unsupported unless lower_stages() takes such a program.
void check_program(const Program& program);

/// Whether parameters that were gathered for a pass are released after each backward pass, and not only after
/// the last one. With several stages they are not, as PyTorch's pipelining runs FSDP2
/// (torch/distributed/pipelining/stage.py).
inline bool releases_after_backward(const Parallel& parallel, const Program& program) {
  return parallel.pipeline == 1 && program.releases_between_batches;
}

/// By group: whether parameters are released after each forward pass.
std::vector<bool> released_after_forward(const Program& program, std::size_t groups);

}  // namespace planner
