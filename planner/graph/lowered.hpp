// What is lowered, and what it is lowered to: the task graph of one worker or of several.

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

/// A worker, and how much slower it computes than the workload says.
struct Worker {
  std::int64_t id = 0;
  double slowdown = 1;
};

/// What is to be lowered.
struct Job {
  const Workload& workload;
  std::span<const TransferCost> transfers;
  const Program& program;
  const Groups& groups;
  const Extras& extras;
  Overlap overlap;
  Jitter jitter;
  /// One worker stands for all where the workload is that of the slowest and nothing jitters.
  std::vector<Worker> workers = {Worker{}};
  std::uint32_t iterations = 3;
  std::uint32_t micro_batches = 1;
  /// Collectives take turns on so many channels, each of which runs in order. More than one needs a single
  /// worker and a program without `by_layer`.
  std::uint32_t channels = 1;
  /// Whether some iterations cost more than others (TransferCost::in_iteration); else each costs the mean,
  /// which is what planners look at.
  bool has_spikes = false;
  /// Whether encodings and decodings that take no time are tasks, too: a live worker carries them out.
  bool has_free_codes = false;
};

struct Lowered {
  static constexpr sim::StreamId kCompute{0};  ///< the first worker's
  static constexpr sim::StreamId kChannel{1};  ///< the first channel, which all workers share
  static constexpr sim::StreamId kTicks{2};    ///< all workers share it
  static constexpr sim::StreamId kInput{3};    ///< the first worker's
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
  /// By mark: the first task after it. Tasks are numbered in the order in which compute comes to them, and
  /// all collectives that an iteration issues are numbered before its mark.
  std::vector<sim::TaskId> after_marks;
  std::uint32_t channels = 1;
  /// Before each collective that is issued for gradients, as part of its task: workers agree to run it.
  sim::Time negotiation{};
};

/// When a mark is reached.
sim::Time at_mark(const std::vector<sim::TaskId>& mark, const sim::Timeline& timeline);

/// How long the update of gradients begin to end - 1 takes: their part of the whole by bytes, rounded so that
/// the parts of any grouping add up to the whole.
sim::Time group_update(const Workload& workload, const Extras& extras, std::uint32_t begin,
                       std::uint32_t end);
sim::Time group_update(const Workload& workload, const Extras& extras, const Group& group);

}  // namespace planner
