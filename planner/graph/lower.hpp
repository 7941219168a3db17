// Turns the program of a pipeline into a task graph over some iterations. Knows no pipeline, fusion or
// schedule.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/cost/transfers.hpp"
#include "planner/job/conditions.hpp"
#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "sim/simulate.hpp"
#include "sim/task_graph.hpp"

namespace planner {

/// What a task is; kept in Task::label.
struct TaskLabel {
  enum class Kind : std::uint8_t {
    read,                  ///< reading the input, where it is not overlapped
    forward,               ///< item: layer; counted on through micro-batches that are run layer by layer
    backward,              ///< item: step of Workload::backward; likewise, from the last micro-batch back
    micro_batch_forward,   ///< item: micro-batch
    micro_batch_backward,  ///< item: micro-batch
    tick,                  ///< waiting for the tick of group `item`
    encode,                ///< item: group, and so for the next four
    all_reduce,
    reduce_scatter,
    all_gather,  ///< before a forward pass counted on as for forward
    decode,
    lars,
    lars_gather,
    update,
    group_update,     ///< item: group
    backward_gather,  ///< an all-gather before a backward pass; item: group, counted on as for backward
  };
  static constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::backward_gather) + 1;

  Kind kind = Kind::read;
  std::uint32_t iteration = 0;
  std::uint32_t item = 0;

  std::uint64_t packed() const;
  static TaskLabel unpack(std::uint64_t label);
  bool operator==(const TaskLabel&) const = default;
};

/// A worker that is simulated: how much slower it computes than the workload says.
struct Worker {
  std::int64_t id = 0;
  double slowdown = 1;
};

/// What is to be run.
struct Job {
  const Workload& workload;
  std::span<const TransferCost> transfers;
  const Program& program;
  const Groups& groups;
  const Extras& extras;
  Overlap overlap;
  Jitter jitter;
  /// Those that need to be looked at: one stands for all where the workload is that of the slowest and
  /// nothing jitters.
  std::vector<Worker> workers = {Worker{}};
  std::uint32_t iterations = 3;
  std::uint32_t micro_batches = 1;
  /// On which collectives take turns, each in order; more than one with one worker and without `by_layer`.
  std::uint32_t channels = 1;
  /// Whether iterations that cost more than others do so (TransferCost::in_iteration); else each costs the
  /// mean, which is what planners look at.
  bool has_spikes = false;
};

struct Lowered {
  static constexpr sim::StreamId kCompute{0};  ///< of the first worker
  static constexpr sim::StreamId kChannel{1};  ///< the first; of all workers
  static constexpr sim::StreamId kTicks{2};
  static constexpr sim::StreamId kInput{3};  ///< of the first worker
  static constexpr std::uint32_t kShared = 2;

  /// Streams of the n-th worker of the job.
  static sim::StreamId compute(std::size_t n);
  static sim::StreamId input(std::size_t n);
  /// The n of a stream that is one of these.
  static std::size_t worker_of(sim::StreamId stream);
  /// The first channel and those that follow the streams of the only worker.
  static sim::StreamId channel(std::uint32_t n);
  bool is_channel(sim::StreamId stream) const;

  sim::TaskGraph graph;
  /// Element 0 tells when the first iteration begins, element i when the i-th ends: when all of these tasks
  /// have ended. An iteration whose collectives reach under the next forward pass counts from one end of the
  /// first micro-batch's forward pass to the next, so a graph of such iterations ends with one more forward
  /// pass.
  std::vector<std::vector<sim::TaskId>> marks;
  std::uint32_t channels = 1;
};

/// When a mark is reached.
sim::Time at_mark(const std::vector<sim::TaskId>& mark, const sim::Timeline& timeline);

/// All that the job runs, one after another, must take less than sim::kMaxUs.
Lowered lower(const Job& job);

/// The update of gradients begin to end - 1 as one group: their part of the whole by bytes, rounded so that
/// the parts of any grouping add up to the whole.
sim::Time group_update(const Workload& workload, const Extras& extras, std::uint32_t begin,
                       std::uint32_t end);
sim::Time group_update(const Workload& workload, const Extras& extras, const Group& group);

}  // namespace planner
