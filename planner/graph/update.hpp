// The end of an iteration's communication: the channel drains, rates are computed, parameters are updated.

#pragma once

#include <vector>

#include "planner/graph/graph_writer.hpp"

namespace planner {

class UpdateWriter {
 public:
  /// `writer` must outlive this. `keeps_gathers_apart`: collectives after the draining are awaited group by
  /// group, so compute does not wait for the rates of a channel in order, which come before them.
  UpdateWriter(GraphWriter& writer, bool keeps_gathers_apart)
      : writer_(writer), keeps_gathers_apart_(keeps_gathers_apart) {}

  /// From here on everything waits for the channel and for the backward pass.
  void drain();
  /// Drains; then the optimizer runs, unless it does group by group.
  void update_at_once();
  /// A collective that may start once the channel has drained.
  void wait_until_drained(sim::TaskId collective);
  /// A collective that compute has come to after the draining. On one channel its place in the order says so.
  void wait_for_drained_channel(sim::TaskId collective);

 private:
  void compute_rates();

  GraphWriter& writer_;
  bool keeps_gathers_apart_;
  std::vector<sim::TaskId> drained_;  // when these have ended, the channel has drained
};

}  // namespace planner
