#include "sim/cluster/replay.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "sim/worker_times.hpp"

namespace cluster {
namespace {

using sim::TaskId;
using sim::Time;
using Times = std::vector<Time>;

class Replay {
 public:
  Replay(const sim::TaskGraph& graph, std::uint32_t workers, const RunTask& run)
      : graph_(graph), run_(run), begins_(graph.tasks().size()) {
    assert(graph.interferences().empty());
    free_.assign(graph.streams().size(), Times(workers));
  }

  void one(TaskId task) {
    Times& free = free_[sim::index(graph_.tasks()[sim::index(task)].stream)];
    Times& begin = begins_[sim::index(task)];
    if (!begin.empty()) {
      sim::raise(free, begin);
      unused_.push_back(std::exchange(begin, {}));
    }
    run_(task, free);
    for (const TaskId next : graph_.successors(task)) {
      hand_over(free, begins_[sim::index(next)]);
    }
  }

 private:
  void hand_over(const Times& ended, Times& begin) {
    if (!begin.empty()) return sim::raise(begin, ended);
    if (unused_.empty()) {
      begin = ended;
      return;
    }
    begin = std::move(unused_.back());
    unused_.pop_back();
    std::ranges::copy(ended, begin.begin());
  }

  const sim::TaskGraph& graph_;
  const RunTask& run_;
  std::vector<Times> free_;    // indexed by stream: the end of its last task
  std::vector<Times> begins_;  // indexed by task: the latest end of its predecessors so far
  std::vector<Times> unused_;
};

}  // namespace

void replay(const sim::TaskGraph& graph, std::span<const sim::TaskId> order, std::uint32_t workers,
            const RunTask& run) {
  assert(order.size() == graph.tasks().size());
  Replay replay(graph, workers, run);
  for (const TaskId task : order) replay.one(task);
}

}  // namespace cluster
