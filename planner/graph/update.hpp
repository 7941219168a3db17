// The end of an iteration's communication: the channel drains, learning rates are computed, parameters are
// updated.

#pragma once

#include <vector>

#include "planner/graph/graph_writer.hpp"

namespace planner {

class UpdateWriter {
 public:
  /// `writer` must outlive this object. `keeps_gathers_apart`: collectives after draining are awaited group
  /// by group, so compute does not wait for the rates, which precede them on an ordered channel.
  UpdateWriter(GraphWriter& writer, bool keeps_gathers_apart)
      : writer_(writer), keeps_gathers_apart_(keeps_gathers_apart) {}

  /// Makes all later tasks wait for the channel and the backward pass.
  void drain();
  /// Drains, then runs the optimizer unless it runs by group.
  void update_at_once();
  /// Delays a collective until the channel has drained.
  void wait_until_drained(sim::TaskId collective);
  /// Delays a collective that compute reaches after draining. With one channel the order already implies
  /// this.
  void wait_for_drained_channel(sim::TaskId collective);

 private:
  void compute_rates();

  GraphWriter& writer_;
  bool keeps_gathers_apart_;
  std::vector<sim::TaskId> drained_;  // when these have ended, the channel has drained
};

}  // namespace planner
