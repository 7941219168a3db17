// What an early all-gather of parameters waits for (Program::gathers_early).

#pragma once

#include <optional>

#include "sim/task_graph.hpp"

namespace planner {

/// The compute that had been issued when parameters were copied out of the buffers of all-gathers, which
/// happens as compute comes to their groups.
class CopiedOut {
 public:
  /// A forward pass begins, after this compute.
  void begin_forward(std::optional<sim::TaskId> compute) { last_ = before_ = compute; }
  void add(std::optional<sim::TaskId> compute) {
    before_ = last_;
    last_ = compute;
  }
  /// In forward passes the buffer of one more group may be in use.
  std::optional<sim::TaskId> awaited(bool is_forward) const { return is_forward ? before_ : last_; }

 private:
  std::optional<sim::TaskId> last_;
  std::optional<sim::TaskId> before_;
};

}  // namespace planner
