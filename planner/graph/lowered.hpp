// The input and output of lowering: a job, and the task graph of one or several workers.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/cost/transfers.hpp"
#include "planner/graph/task_label.hpp"
#include "planner/job/conditions.hpp"
#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "sim/task_graph.hpp"
#include "sim/timeline.hpp"

namespace planner {

/// A worker and its slowdown relative to the workload.
struct Worker {
  std::int64_t id = 0;
  double slowdown = 1;
};

/// The input of lower().
struct Job {
  const Workload& workload;
  std::span<const TransferCost> transfers;
  const Program& program;
  const Groups& groups;
  const Extras& extras;
  Overlap overlap;
  Jitter jitter;
  /// A single worker represents all workers if the workload is the slowest worker's and there is no jitter.
  std::vector<Worker> workers = {Worker{}};
  std::uint32_t iterations = 3;
  std::uint32_t micro_batches = 1;
  /// The number of channels; collectives are assigned to them round-robin, and each runs in order. More than
  /// one requires a single worker and a program without `by_layer`.
  std::uint32_t channels = 1;
  /// Whether some iterations cost more than others (TransferCost::in_iteration); otherwise each costs the
  /// mean, which planners use.
  bool has_spikes = false;
  /// Whether encodings and decodings of zero length are tasks, too: a live worker runs them.
  bool has_free_codes = false;
};

struct Lowered {
  static constexpr sim::StreamId kCompute{0};  ///< the first worker's
  static constexpr sim::StreamId kChannel{1};  ///< the first channel; shared by all workers
  static constexpr sim::StreamId kTicks{2};    ///< shared by all workers
  static constexpr sim::StreamId kInput{3};    ///< the first worker's
  static constexpr std::uint32_t kShared = 2;

  /// Streams of the n-th worker of the job.
  static sim::StreamId compute(std::size_t n);
  static sim::StreamId input(std::size_t n);
  /// The index n of the worker that owns this stream.
  static std::size_t worker_of(sim::StreamId stream);
  /// The n-th channel: the first has a fixed stream, the others follow the streams of the only worker. The
  /// last is that between shard groups, if the program has one.
  static sim::StreamId channel(std::uint32_t n);
  bool is_channel(sim::StreamId stream) const;
  /// Whether it is a channel or that of ticks, which workers run together.
  bool is_shared(sim::StreamId stream) const { return stream == kTicks || is_channel(stream); }

  sim::TaskGraph graph;
  /// Element 0 marks the beginning of the first iteration and element i the end of the i-th: the time when
  /// all tasks of the element have ended. If collectives overlap the next forward pass, an iteration lasts
  /// from one end of the first micro-batch's forward pass to the next, so the graph ends with one more
  /// forward pass.
  std::vector<std::vector<sim::TaskId>> marks;
  /// By mark: the first task after it. Tasks are numbered in compute order, and all collectives that an
  /// iteration issues are numbered before its mark.
  std::vector<sim::TaskId> after_marks;
  std::uint32_t channels = 1;
  /// Time before each gradient collective, included in its task, in which workers agree to run it.
  sim::Time negotiation{};
};

/// The time at which a mark is reached.
sim::Time at_mark(const std::vector<sim::TaskId>& mark, const sim::Timeline& timeline);

/// The update time of gradients begin to end - 1: their share of the total by bytes, rounded so that the
/// shares of any grouping add up to the total.
sim::Time group_update(const Workload& workload, const Extras& extras, std::uint32_t begin,
                       std::uint32_t end);
sim::Time group_update(const Workload& workload, const Extras& extras, const Group& group);

}  // namespace planner
