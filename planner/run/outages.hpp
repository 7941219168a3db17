// Outages of workers, and their effect on tasks.

#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/graph/task_label.hpp"

namespace planner {

/// Thrown if other workers wait for a worker that has failed permanently; what() names the tasks.
class NeverEnds : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Outages {
 public:
  explicit Outages(const Setting& setting);

  /// The end of a task that a worker begins; the task is suspended while the worker is down. Throws
  /// NeverEnds.
  sim::Time end(std::size_t worker, sim::Time begin, sim::Time duration, const TaskLabel& label) const;
  /// When a worker that is ready for a collective joins it. Throws NeverEnds.
  sim::Time joins(std::size_t worker, sim::Time at, const TaskLabel& label) const {
    return end(worker, at, sim::Time::zero(), label);
  }
  bool none() const { return all_.empty(); }

 private:
  struct Outage {
    std::size_t worker = 0;
    sim::Time from{};
    sim::Time to{};  ///< Time::max() if the worker never recovers
  };

  [[noreturn]] void never_ends(const Outage& outage, const TaskLabel& label) const;

  const Setting& setting_;
  std::vector<Outage> all_;  // sorted by begin
};

}  // namespace planner
